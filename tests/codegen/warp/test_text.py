"""Promises of a warp program's text: every statement has its line, with names, kernel lines and notes."""

from __future__ import annotations

from twill.codegen.warp import program as ir
from twill.codegen.warp import text as warp_text
from twill.codegen.warp.expression import Apply, CtaNumber, Element, Local, Number, NumPrograms, ProgramId, Symbol, less
from twill.codegen.warp.layout import Accumulator, Along, Uniform
from twill.tile.program import Argument, TileProgram, TileType

UNSIGNED = (("signed", 0),)
COUNTED = Apply("min", (Local("line"), Number(9)), "i32", (("signed", 1),))
N = Symbol(3, "N", "i32")
ROW = Local("row")
TILE = Accumulator(64, 64)
WINDOW = ir.Window("out", "f32", (ir.WindowAxis(64, Number(1), ROW, None, N),), Number(0), 0.0)

PLACE = Local("place", "u32")
REST = Apply("rem", (PLACE, NumPrograms(0, "u32")), "u32", UNSIGNED)
BELOW = Apply("compare", (PLACE, Local("instances", "u32")), "i1", (("predicate", "lt"), *UNSIGNED))
CHOICE = Apply("select", (BELOW, Apply("min", (PLACE, CtaNumber("ctas")), "u32", UNSIGNED), CtaNumber("rank")), "u32")
AT = Apply("min", (PLACE, Number(9, "u32")), "u32", UNSIGNED)

SETUP: tuple[ir.Stmt, ...] = (
    ir.Define(("instances",), (NumPrograms(0, "u32"),)),
    ir.Define(("runs",), (less(N, Number(4)),), note="of neighbours"),
    ir.Given("factor", Apply("div", (N, Number(3)), "i32", (("signed", 1),)), note="of the launch"),
    ir.SumOver("busy", "line", N, NumPrograms(1), Local("n"), True, ("m", "n"), (COUNTED, Local("m")), note="lines"),
    ir.AwaitEarlierGrids(),
)
ONCE: tuple[ir.Stmt, ...] = (
    ir.Define(("size",), (Apply("cast", (N,), "u32"),)),
    ir.Evenly("together", Local("instances", "u32"), Number(33, "u32")),
    ir.Keep((Local("together", "u32"), CtaNumber("cta"), Number(0, "u32"), Number(1, "u32"))),
)

WALK: tuple[ir.Stmt, ...] = (
    ir.ScalarLoop(
        ("at", "left"), (Number(0), N), less(Local("at"), N),
        (Apply("add", (Local("at"), Number(1)), "i32"), Local("at")), (ir.Visit(line=5),), line=4,
    ),
)  # fmt: skip

EVERY_STATEMENT: tuple[ir.Stmt, ...] = (
    ir.Let("row", Apply("mul", (ProgramId(0), Number(64)), "i32"), line=7),
    ir.CountReuse("same", (ROW, N)),
    ir.If(less(ROW, N), (ir.Commit(note="empty"),)),
    ir.Pipeline(
        "k", "step", N, 1, prologue=((ir.Get(10),),), steady=(ir.Consumed(10),), epilogue=((ir.Advance(10),),),
        interval=128, line=9,
    ),
    ir.Acquire(10),
    ir.Expect(10, 8192),
    ir.Settle(10),
    ir.MakeMap(1, 0, (N, None), (ROW, Number(1)), N),
    ir.ShowMaps((1, 1)),
    ir.TmaLoad(0, (ROW, Number(0)), ir.SlotRef(0, 10, (0, 64), (0, 64)), 10),
    ir.Publish(10),
    ir.Fence((0,)),
    ir.Multiply(0, ir.SlotRef(0, 10), ir.SlotRef(0, 10), False, True, 64, "bf16", True),
    ir.Multiply(0, 1, ir.SlotRef(0, 10), False, False, 64, "bf16", False, line=11),
    ir.WaitGroups(1, (0,)),
    ir.Fill(0, Number(0.0, "f32")),
    ir.Range(2, 64),
    ir.Compute("compare", (ir.Reg(0), ir.Reg(2, (0, -1))), 3, (("predicate", "lt"), ("signed", 1))),
    ir.Compute("add", (ir.Reg(4), Element(4, "f32")), 4),
    ir.Reduce(0, 2, 1, "add"),
    ir.Reduce(0, 2, 0, "max", scratch=0, barrier=2),
    ir.Copy(0, 5),
    ir.LoadShared(ir.SlotRef(0), 1, transposed=True),
    ir.StoreShared(1, ir.SlotRef(0), columns=(0, 32)),
    ir.LoadGlobal(WINDOW, 2, mask=3),
    ir.StoreGlobal(WINDOW, ir.Reg(2), combine="add"),
    ir.ProxyFence(),
    ir.Sync(2),
    ir.Arrive(2),
    ir.TmaStore(0, (ROW, Number(0)), ir.SlotRef(0), combine="add"),
    ir.TmaStore(0, (ROW, Number(0)), ir.SlotRef(0), passing=True),
    ir.Skip(10, N),
    ir.BulkCommit(),
    ir.BulkWait(0, read=True),
    ir.FetchInstance(),
    ir.PublishInstance(
        ir.SlotRef(0, 10), (REST, Number(0, "u32"), Local("cached", "u32")), BELOW,
        (ir.Define(("rest", "chosen"), (REST, CHOICE), note="both"),),
    ),
    ir.Recall(),
    ir.Seek("line", "before", "here", AT, N, NumPrograms(1), Local("n"), ("n",), (COUNTED,)),
    ir.SetProgramId(1, REST),
    ir.StopUnless(Local("told.w", "u32")),
    ir.ReceiveInstance(ir.SlotRef(0, 10)),
    ir.Scan(0, 0, 1, "add", 0, 2, reverse=True),
    ir.Rearrange((0, 0), 0, 7, (2, 4), (-1, 0), 0, 2),
    ir.TensorMultiply(
        ir.SlotRef(0, 10), ir.SlotRef(0, 10), ir.SlotRef(0), False, True, 64, "bf16", less(N, Number(4))
    ),
    ir.TensorMultiply(
        ir.SlotRef(0, 10), ir.SlotRef(0, 10), ir.SlotRef(0), False, True, 64, "i8", Number(1, "i1"),
        ir.SlotRef(0, 10), ir.SlotRef(0), 16,
    ),
    ir.CopyScales(ir.SlotRef(0, 10), ir.SlotRef(0), 128),
    ir.StoreScales(2, ir.SlotRef(0, 10)),
    ir.LoadAccumulator(ir.SlotRef(0, 10), 0),
    ir.StoreAccumulator(0, ir.SlotRef(0, 10, None, (0, 32))),
    ir.Consumed(10, behind=True),
    ir.Copy(0, 5, (0, 64)),
    ir.Histogram(4, 2, 0, 2, 3),
    ir.SumParts(0, 0, ProgramId(0), ProgramId(1), NumPrograms(1), 0, 2),
    ir.Elect(2, ("old",), (Local("was"),), 0, (
        ir.Atomic("was", "N", Number(7, "i64"), (Number(0), Number(1)), "cas", "i32", "acq_rel"),
        ir.Atomic("now", "N", Number(7, "i64"), (), "load", "i32", "relaxed", less(Local("was"), Number(1))),
    )),
    ir.Elect(2),
    ir.ReceiveElected(ir.SlotRef(0, 10), ("told", "more"), ("i32", "f32")),
)  # fmt: skip

TILE_PROGRAM = TileProgram("all", "bf16", "all.py", (Argument("N", 3, TileType((), "i32"), 1),), (), ())

PROGRAM = ir.WarpProgram(
    program=TILE_PROGRAM,
    machine="h100",
    maps=(
        ir.TensorMapSpec(0, "x", "bf16", (N, None), (Symbol(4, "stride", "i32"), Number(1)), N, (64, 64), 128),
        ir.TensorMapSpec(1, "y", "bf16", (None, None), (Number(0), Number(0)), Number(0), (64, 64), 128, made=1),
    ),
    buffers=(ir.Buffer(0, "x", (64, 64), "bf16", 128, 128, 2, 8192, 0),),
    arefs=(ir.Aref(0, "x", (0,), 2, 0, (0,), "tma", 8192, 1, 4),),
    barriers=(ir.NamedBarrier(1, "turn", (0,), 128), ir.NamedBarrier(2, "scratch", (0,), 128)),
    groups=(
        ir.WarpGroup(
            0, "consumer", 128, 240, False,
            fragments=(
                ir.Fragment(0, "acc", "f32", TILE), ir.Fragment(1, "p", "bf16", TILE),
                ir.Fragment(2, "rows", "f32", Along(TILE, 1)), ir.Fragment(3, "mask", "i1", TILE),
                ir.Fragment(4, "mean", "f32", Uniform()), ir.Fragment(5, "acc", "f32", TILE),
            ),
            cursors=(ir.Cursor(10, "x_read", 0),),
            body=EVERY_STATEMENT,
            finish=(ir.BulkWait(0, read=False),),
            loop=ir.InstanceLoop(CtaNumber("cta"), Local("instances", "u32"), CtaNumber("ctas")),
        ),
    ),
    shared=16416,
    setup=SETUP,
    once=ONCE,
    walk=WALK,
)  # fmt: skip

EXPECTED = """\
warp program all bf16 for h100: 16416 bytes of shared memory
map 0 x: bf16 [$N, ?] by [$stride#4, 1], offset $N, box 64x64, swizzle 128
map 1 y: bf16 [?, ?] by [0, 0], offset 0, box 64x64, swizzle 128, made as number 1
buffer 0 x: 64x64 bf16 in panels of 128 bytes, swizzle 128, 2 x 8192 bytes at 0
aref 0 x of x: depth 2, consumer -> (consumer), 8192 bytes a slot by tma, arrivals 1 full, 4 empty
barrier 1 turn: (consumer), 128 threads
barrier 2 scratch: (consumer), 128 threads
setup
  define instances = num_programs(0)
  define runs = [($N < 4)]  # of neighbours
  given factor = ($N / 3)  # of the launch
  sum busy = num_programs(1) times n over line below $N, with marks where m, n = min(line, 9, signed=1), m  # lines
  await earlier grids
once
  define size = cast([$N]):u32
  define together = evenly instances by at most 33
  keep together, cta(), 0, 1
walk
  while (at < $N) with at, left = 0, $N then (at + 1), at  # line 4
    visit  # line 5

group 0 consumer: 128 threads, 240 registers
  fragment 0 acc: f32 accumulator 64x64
  fragment 1 p: bf16 accumulator 64x64
  fragment 2 rows: f32 rows of 64x64
  fragment 3 mask: i1 accumulator 64x64
  fragment 4 mean: f32 uniform
  fragment 5 acc: f32 accumulator 64x64
  cursor 10 x_read in x
  instances from cta() below instances by ctas()
  body
    let row = (program_id(0) * 64)  # line 7
    let same = instances just before with the same (row, $N)
    if (row < $N)
      commit  # empty
    pipeline k with step step: $N iterations, 1 stages, I = 128  # line 9
      prologue 0
        get x_read
      steady
        consumed x_read
      epilogue 0
        advance x_read
    acquire x_read
    expect x_read 8192 bytes
    settle x_read
    make map y: [$N, ?] by [row, 1], offset $N, through x
    show maps y, y
    tma load x[row, 0] -> x[x_read][0:64, 0:64] full at x_read
    publish x_read
    fence %acc#0
    multiply %acc#0 += x[x_read] @ x[x_read] transposed, k 64 bf16
    multiply %acc#0 = %p @ x[x_read], k 64 bf16  # line 11
    wait 1 pending: %acc#0
    %acc#0 = fill 0.0
    %rows = range from 64
    %mask = compare %acc#0, %rows[0, *] predicate=lt signed=1
    %mean = add %mean, (%mean)
    %rows = reduce add %acc#0 axis 1
    %rows = reduce max %acc#0 axis 0 through x with scratch
    %acc#5 = %acc#0
    %p = load x transposed
    store %p[:, 0:32] -> x
    %rows = load global f32 out [64 from row by 1 in ..$N] pad 0.0 where %mask
    store global by add %rows -> f32 out [64 from row by 1 in ..$N] pad 0.0
    proxy fence
    sync scratch
    arrive scratch
    tma store by add x -> x[row, 0]
    tma store x -> x[row, 0] passing
    advance x_read by $N
    bulk commit
    bulk wait 0 pending read
    fetch instance
    publish instance x[x_read]: (place % num_programs(0)), 0, cached if (place < instances)
      define rest, chosen = (place % num_programs(0)), select((place < instances), min(place, ctas()), rank())  # both
    recall
    seek line, before, here at min(place, 9) in num_programs(1) times n below $N where n = min(line, 9, signed=1)
    program_id 1 = (place % num_programs(0))
    stop unless told.w
    receive instance x[x_read]
    %acc#0 = scan add %acc#0 axis 1 backwards through x with scratch
    %acc#0 = rearrange %acc#0, %acc#0 from 7 by 2, 4 of -1, 0 through x with scratch
    tensor multiply x[x_read] = x[x_read] @ x transposed, k 64 bf16, added if ($N < 4)
    tensor multiply x[x_read] = x[x_read] @ x transposed, k 64 i8, added if 1:i1, scales x[x_read] and x for 16
    copy scales x[x_read] -> x, 128 rows
    store scales %rows -> x[x_read]
    %acc#0 = load accumulator x[x_read]
    store accumulator %acc#0 -> x[x_read][:, 0:32]
    consumed x_read behind MMAs
    %acc#5 = %acc#0[:, 0:64]
    %rows = histogram %mean where %mask through x with scratch
    %acc#0 = sum of parts %acc#0, program_id(1) of num_programs(1) in program_id(0) through x with scratch
    elect with scratch, old = was through x
      atomic cas acq_rel i32 N[7:i64] by 0, 1 as was
      atomic load relaxed i32 N[7:i64] where (was < 1) as now
    elect with scratch
    receive told, more: i32, f32 of x[x_read]
  finish
    bulk wait 0 pending
"""


def test_every_statement_is_one_line_with_names_lines_and_notes() -> None:
    assert warp_text.text(PROGRAM) == EXPECTED


def test_every_kind_of_statement_has_a_form() -> None:
    kinds = {kind for kind in vars(ir).values() if isinstance(kind, type) and issubclass(kind, ir.Stmt)}
    shown = {type(stmt) for stmt in ir.walk((*SETUP, *ONCE, *WALK, *EVERY_STATEMENT))}
    assert kinds - {ir.Stmt, ir.SchedulingStmt} == shown
