"""Warp programs written by hand: a GEMM with a load group and two consumers, with its epilogue through the TMA; and a
two-group pipeline whose ring is filled from registers."""

from __future__ import annotations

from functools import cache

from tests.conftest import ROOT
from twill.codegen.aref import (
    Acquire,
    Advance,
    Aref,
    Buffer,
    BulkCommit,
    BulkWait,
    Commit,
    Compute,
    Consumed,
    Cursor,
    Expect,
    Fence,
    Fill,
    Fragment,
    Get,
    If,
    Let,
    Multiply,
    NamedBarrier,
    Pipeline,
    ProxyFence,
    Publish,
    Reg,
    SlotRef,
    Stmt,
    StoreShared,
    Sync,
    TensorMap,
    TmaLoad,
    TmaStore,
    WaitGroups,
    WarpGroup,
    WarpProgram,
)
from twill.codegen.expression import Apply, Expr, Local, Number, ProgramId, Symbol, add, less, multiply, subtract
from twill.codegen.layout import Accumulator
from twill.graph.extract import extract
from twill.graph.program import TileProgram

K_STEP, DEPTH = 64, 3


@cache
def tile_program(name: str, spec: str | None = None) -> TileProgram:
    return extract(str(ROOT / "examples" / f"{name}.py"), spec)[0]


def number(value: int) -> Number:
    return Number(value)


def cdiv(value: Expr, divisor: int) -> Expr:
    return Apply("div", (add(value, number(divisor - 1)), number(divisor)), "i32", (("signed", 1),))


def symbol(program: TileProgram, name: str) -> Symbol:
    argument = next(argument for argument in program.arguments if argument.name == name)
    return Symbol(argument.value, name, argument.type.element)


def tensor_map(program: TileProgram, number_: int, argument: str, box: tuple[int, int]) -> TensorMap:
    sizes = tuple(symbol(program, f"{argument}.shape.{axis}") for axis in range(2))
    strides = (symbol(program, f"{argument}.stride.0"), number(1))
    return TensorMap(number_, argument, "bf16", sizes, strides, number(0), box, 128)


def tile(base: int, *block: Stmt) -> tuple[Stmt, ...]:
    """A body that first finds out which tile the program instance makes (`gemm_bias_gelu` has a grid of two axes)."""
    return (
        Let("row", multiply(ProgramId(0), number(128)), line=21),
        Let("column", multiply(ProgramId(1), number(128)), line=22),
        *block,
    )


def at_least(step: Expr, stage: int, trip: Expr) -> Apply:
    """stage <= step and step - stage < trip."""
    return Apply("and", (less(number(stage - 1), step), less(subtract(step, number(stage)), trip)), "i1")


def gemm(consumers: int = 2, wait: int = 1) -> WarpProgram:
    """C = A B for the example `dual_gemm`'s neighbour `gemm_bias_gelu` without its epilogue would need a bias; this is
    the plain product of `tests/warp_kernels.py`. Each consumer makes 128 / consumers rows. Slots are given back
    `wait` steps after their multiply was issued (stages = wait + 1)."""
    program = plain_gemm()
    rows = 128 // consumers
    trip, step = cdiv(symbol(program, "K"), K_STEP), Local("step")
    load, groups = consumers, tuple(range(consumers))
    a_bytes, b_bytes, c_bytes = 128 * 64 * 2, 64 * 128 * 2, rows * 128 * 2
    slot = a_bytes + b_bytes
    buffers = (
        Buffer(0, "a", (128, 64), "bf16", 128, 128, DEPTH, a_bytes, 0),
        Buffer(1, "b", (64, 128), "bf16", 128, 128, DEPTH, b_bytes, DEPTH * a_bytes),
        *(
            Buffer(2 + g, f"c{g}", (rows, 128), "bf16", 128, 128, 1, c_bytes, DEPTH * slot + g * c_bytes)
            for g in groups
        ),
    )
    ring = Aref(0, "ab", (0, 1), DEPTH, load, groups, "tma", slot, 1, 4 * consumers)
    maps = (
        tensor_map(program, 0, "a_desc", (128, 64)),
        tensor_map(program, 1, "b_desc", (64, 64)),
        tensor_map(program, 2, "c_desc", (rows, 64)),
    )

    k = multiply(step, number(K_STEP))
    put = (
        Acquire(0, line=34),
        Expect(0, slot, line=34),
        TmaLoad(0, (Local("row"), k), SlotRef(0, 0), 0, line=34),
        TmaLoad(1, (k, Local("column")), SlotRef(1, 0, None, (0, 64)), 0, line=35),
        TmaLoad(1, (k, add(Local("column"), number(64))), SlotRef(1, 0, None, (64, 128)), 0, line=35),
        Advance(0),
    )
    loads = Pipeline("k", "step", trip, 0, (), put, (), line=33)
    producer = WarpGroup(load, "load", 128, 40, True, (), (Cursor(0, "put", 0),), tile(load, loads))
    made = tuple(_consumer(g, rows, wait, trip) for g in groups)
    barriers = tuple(NamedBarrier(g, f"epilogue {g}", (g,), 128) for g in groups)
    shared = DEPTH * slot + consumers * c_bytes + 1024
    return WarpProgram(program, "h100", maps, buffers, (ring,), barriers, (*made, producer), shared)


def _consumer(group: int, rows: int, wait: int, trip: Expr) -> WarpGroup:
    acc, c = 10 * group + 10, 10 * group + 11
    get, done = 10 * group + 10, 10 * group + 11
    fragments = (
        Fragment(acc, "acc", "f32", Accumulator(rows, 128)),
        Fragment(c, "c", "bf16", Accumulator(rows, 128)),
    )
    step = Local("step")
    product = (
        Get(get, line=36),
        Fence((acc,), line=36),
        Multiply(acc, SlotRef(0, get, (group * rows, group * rows + rows)), SlotRef(1, get), False, False, 64, "bf16",
                 True, line=36),
        Advance(get),
    )  # fmt: skip

    def stages(k: int, prologue: bool) -> tuple[Stmt, ...]:
        """Step k of the prologue, or step k after the steady state: only what is within the loop."""
        multiply_now = (If(at_least(step, 0, trip), product),) if prologue else ()
        release_now = (If(at_least(step, wait, trip), (Consumed(done, line=36), Advance(done))),)
        return (*multiply_now, Commit(line=36), WaitGroups(wait, ()), *(() if prologue and k < wait else release_now))

    release = (Consumed(done, line=36), Advance(done))
    steady = (*product, Commit(line=36), WaitGroups(wait, (), line=36), *release)
    prologue = tuple(stages(k, True) for k in range(wait))
    epilogue = tuple(stages(k, False) for k in range(wait))
    loop = Pipeline("k", "step", trip, wait, prologue, steady, epilogue, line=33)
    store = (
        WaitGroups(0, (acc,)),
        Compute("cast", (Reg(acc),), c, line=37),
        BulkWait(0, True),
        Sync(group),
        StoreShared(c, SlotRef(2 + group), line=38),
        ProxyFence(line=38),
        Sync(group),
        *(TmaStore(2, (add(Local("row"), number(group * rows)), add(Local("column"), number(left))),
                   SlotRef(2 + group, None, None, (left, left + 64)), line=38) for left in (0, 64)),
        BulkCommit(line=38),
    )  # fmt: skip
    body = tile(group, Fill(acc, Number(0.0, "f32"), line=33), loop, *store)
    return WarpGroup(
        group, f"compute{group}", 128, 232, False, fragments, (Cursor(get, "get", 0), Cursor(done, "done", 0)), body,
        (BulkWait(0, True),),
    )  # fmt: skip


def registers() -> WarpProgram:
    """As `gemm(1, 0)`, with a second compute group that loads A through LoadGlobal and publishes it."""
    raise NotImplementedError


def plain_gemm() -> TileProgram:
    return extract(str(ROOT / "tests" / "warp_kernels.py") + "::product")[0]


_ = (If, Publish)
