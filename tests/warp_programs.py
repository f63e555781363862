"""Warp programs written by hand: a GEMM with a load group and two consumers, with its epilogue through the TMA; and a
two-group pipeline whose ring is filled from registers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import count

from tests.conftest import ROOT
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.tile_scheduler import tile_scheduler
from twill.codegen.passes import unused_indices
from twill.codegen.passes.cluster import clustered
from twill.codegen.passes.dynamic_scheduler import with_tile_scheduler
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Apply, Expr, Local, Number, ProgramId, Symbol, add, less, multiply, subtract
from twill.codegen.warp.layout import Accumulator, Blocked
from twill.codegen.warp.program import (
    Acquire,
    Advance,
    Aref,
    Buffer,
    BulkCommit,
    BulkWait,
    Cluster,
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
    LoadGlobal,
    Multiply,
    NamedBarrier,
    Pipeline,
    ProxyFence,
    Publish,
    Reg,
    SlotRef,
    Stmt,
    StoreGlobal,
    StoreShared,
    Sync,
    TensorMapSpec,
    TmaLoad,
    TmaStore,
    WaitGroups,
    WarpGroup,
    WarpProgram,
    Window,
    WindowAxis,
)
from twill.graph.extract import extract
from twill.tile.program import TileProgram

K_STEP, DEPTH = 64, 3
MOST_SHARED = 232448


def number(value: int) -> Number:
    return Number(value)


def cdiv(value: Expr, divisor: int) -> Expr:
    return Apply("div", (add(value, number(divisor - 1)), number(divisor)), "i32", (("signed", 1),))


def symbol(program: TileProgram, name: str) -> Symbol:
    argument = next(argument for argument in program.arguments if argument.name == name)
    return Symbol(argument.value, name, argument.type.element)


def tensor_map(program: TileProgram, number_: int, argument: str, box: tuple[int, int]) -> TensorMapSpec:
    sizes = tuple(symbol(program, f"{argument}.shape.{axis}") for axis in range(2))
    strides = (symbol(program, f"{argument}.stride.0"), number(1))
    return TensorMapSpec(number_, argument, "bf16", sizes, strides, number(0), box, 128)


def tile(*block: Stmt) -> tuple[Stmt, ...]:
    """A body that first finds out which tile the program instance makes."""
    return (
        Let("row", multiply(ProgramId(0), number(128)), line=21),
        Let("column", multiply(ProgramId(1), number(128)), line=22),
        *block,
    )


def at_least(step: Expr, stage: int, trip: Expr) -> Apply:
    """stage <= step and step - stage < trip."""
    return Apply("and", (less(number(stage - 1), step), less(subtract(step, number(stage)), trip)), "i1")


def gemm(consumers: int = 2, wait: int = 1) -> WarpProgram:
    """C = A B, the kernel of `tests/warp_kernels.py`. Each consumer makes 128 / consumers rows; slots are given back
    `wait` steps after their multiply was issued."""
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
    producer = WarpGroup(load, "load", 128, 40, True, (), (Cursor(0, "put", 0),), tile(loads))
    made = tuple(_consumer(g, rows, wait, trip) for g in groups)
    barriers = tuple(NamedBarrier(g, f"epilogue {g}", (g,), 128) for g in groups)
    shared = DEPTH * slot + consumers * c_bytes + 1024
    return counting(WarpProgram(program, "h100", maps, buffers, (ring,), barriers, (*made, producer), shared))


def counting(program: WarpProgram) -> WarpProgram:
    """The program, whose instances come in the order of the grid: of pairs in a cluster."""
    return without_unused(tile_scheduler(cluster=program.cluster).of(program))


def without_unused(program: WarpProgram) -> WarpProgram:
    """The program without grid indices that no warp group asks for."""
    return unused_indices.run(program, Choices(True, False, False, MOST_SHARED))


def claiming(program: WarpProgram) -> WarpProgram:
    """The program with a dynamic order of its instances."""
    program = tile_scheduler().of(program)
    memory = SharedMemoryPlan(
        program.program.file, [*program.buffers], [*program.arefs], [*program.maps], [*program.barriers]
    )
    taken = [cursor.id for group in program.groups for cursor in group.cursors]
    groups, _ = with_tile_scheduler(program.groups, memory, count(max(taken) + 1))
    buffers, shared = memory.place(MOST_SHARED)
    return without_unused(
        replace(program, buffers=buffers, arefs=tuple(memory.arefs), groups=tuple(groups), shared=shared)
    )


def clustered_gemm(consumers: int = 2, wait: int = 1) -> WarpProgram:
    """The same in clusters along axis 0 of the grid: neighbours share B, each sends half; A is each one's own."""
    alone = gemm(consumers, wait)
    ring = replace(alone.arefs[0], shared=True, empty_count=2 * alone.arefs[0].empty_count)
    loads = next(stmt for stmt in alone.groups[consumers].body if isinstance(stmt, Pipeline))
    acquire, expect, a, first, second, advance = loads.steady
    assert isinstance(first, TmaLoad) and isinstance(second, TmaLoad)
    halves = (replace(first, sender=0), replace(second, sender=1))
    together = replace(loads, steady=(acquire, expect, a, *halves, advance))
    producer = replace(alone.groups[consumers], body=tile(together))
    groups = clustered((*alone.groups[:consumers], producer), (ring,))
    return counting(replace(alone, arefs=(ring,), groups=tuple(groups), cluster=Cluster(0)))


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
    body = tile(Fill(acc, Number(0.0, "f32"), line=33), loop, *store)
    return WarpGroup(
        group, f"compute{group}", 128, 232, False, fragments, (Cursor(get, "get", 0), Cursor(done, "done", 0)), body,
        (BulkWait(0, True),),
    )  # fmt: skip


def _window(program: TileProgram, argument: str, columns: int, column: Expr) -> Window:
    shape = [symbol(program, f"{argument}.shape.{axis}") for axis in range(2)]
    rows = WindowAxis(128, symbol(program, f"{argument}.stride.0"), Local("row"), number(0), shape[0])
    return Window(argument, "bf16", (rows, WindowAxis(columns, number(1), column, number(0), shape[1])), number(0), 0.0)


def registers() -> WarpProgram:
    """The same product with one consumer; a second group of threads loads A and puts it into shared memory."""
    program = plain_gemm()
    trip, step = cdiv(symbol(program, "K"), K_STEP), Local("step")
    k = multiply(step, number(K_STEP))
    compute, fill, load = 0, 1, 2
    a_bytes, b_bytes, depth = 128 * 64 * 2, 64 * 128 * 2, 2
    buffers = (
        Buffer(0, "a", (128, 64), "bf16", 128, 128, depth, a_bytes, 0),
        Buffer(1, "b", (64, 128), "bf16", 128, 128, depth, b_bytes, depth * a_bytes),
    )
    rings = (
        Aref(0, "a", (0,), depth, fill, (compute,), "registers", a_bytes, 4, 4),
        Aref(1, "b", (1,), depth, load, (compute,), "tma", b_bytes, 1, 4),
    )
    window = _window(program, "a_desc", 64, k)
    stored = _window(program, "c_desc", 128, Local("column"))
    product = (
        Get(0, line=36), Get(1, line=36), Fence((10,), line=36),
        Multiply(10, SlotRef(0, 0), SlotRef(1, 1), False, False, 64, "bf16", True, line=36), Commit(),
        WaitGroups(0, (10,)), Consumed(0), Advance(0), Consumed(1), Advance(1),
    )  # fmt: skip
    put = (
        LoadGlobal(window, 20, line=34), Acquire(2, line=34), StoreShared(20, SlotRef(0, 2), line=34), ProxyFence(),
        Publish(2), Advance(2),
    )  # fmt: skip
    halves = tuple(
        TmaLoad(0, (k, add(Local("column"), number(left))), SlotRef(1, 3, None, (left, left + 64)), 3, line=35)
        for left in (0, 64)
    )
    fetch = (Acquire(3, line=35), Expect(3, b_bytes), *halves, Advance(3))

    def loop(block: tuple[Stmt, ...]) -> Pipeline:
        return Pipeline("k", "step", trip, 0, (), block, (), line=33)

    accumulator = Fragment(10, "acc", "f32", Accumulator(128, 128))
    c = Fragment(11, "c", "bf16", Accumulator(128, 128))
    last = (Compute("cast", (Reg(10),), 11, line=37), StoreGlobal(stored, Reg(11), line=38))
    groups = (
        WarpGroup(compute, "compute", 128, 208, False, (accumulator, c),
                  (Cursor(0, "a", 0), Cursor(1, "b", 1)),
                  tile(Fill(10, Number(0.0, "f32")), loop(product), *last)),
        WarpGroup(fill, "fill", 128, 104, False, (Fragment(20, "a", "bf16", Blocked((128, 64), 8)),),
                  (Cursor(2, "a", 0),),
                  tile(loop(put))),
        WarpGroup(load, "load", 128, 40, True, (), (Cursor(3, "b", 1),), tile(loop(fetch))),
    )  # fmt: skip
    maps = (tensor_map(program, 0, "b_desc", (64, 64)),)
    return counting(WarpProgram(program, "h100", maps, buffers, rings, (), groups, depth * (a_bytes + b_bytes) + 1024))


@cache
def plain_gemm() -> TileProgram:
    return extract(str(ROOT / "tests" / "warp_kernels.py") + "::product")[0]
