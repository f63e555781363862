"""Small warp programs, written by hand, for tests of what prints and runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.warp_programs import counting
from twill.codegen.print.cuda.elements import BYTES
from twill.codegen.warp.expression import Apply, Expr, Local, Number, ProgramId, Symbol, less, multiply
from twill.codegen.warp.layout import Accumulator, Layout
from twill.codegen.warp.program import (
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
    Reg,
    SlotRef,
    Stmt,
    StoreShared,
    Sync,
    TensorMapSpec,
    TmaLoad,
    TmaStore,
    WaitGroups,
    WarpGroup,
    WarpProgram,
)
from twill.tile.program import Argument, TileProgram, TileType


def arguments(**kinds: str) -> tuple[Argument, ...]:
    """Scalars by element type, pointers as "ptr:f32", all divisible by 16."""
    return tuple(Argument(name, number, TileType((), kind), 16) for number, (name, kind) in enumerate(kinds.items()))


def tile_program(kernel: str, args: Sequence[Argument]) -> TileProgram:
    """A tile program of which only the arguments matter."""
    return TileProgram(kernel, "small", f"{kernel}.py", tuple(args), (), ())


def symbol(program: TileProgram, name: str) -> Symbol:
    """A scalar argument."""
    argument = next(a for a in program.arguments if a.name == name)
    return Symbol(argument.value, name, argument.type.element)


def matrix(
    number: int, name: str, shape: tuple[int, ...], element: str, slots: int = 1, offset: int = 0, swizzle: int = 128
) -> Buffer:
    """A ring of swizzled matrices, or of vectors (swizzle 0)."""
    size = BYTES[element]
    for extent in shape:
        size *= extent
    mode = swizzle if len(shape) == 2 else 0
    return Buffer(number, name, shape, element, mode, swizzle, slots, -(-size // 1024) * 1024, offset)


def place(buffers: Sequence[Buffer]) -> tuple[Buffer, ...]:
    """Laid out one after the other."""
    out: list[Buffer] = []
    at = 0
    for buffer in buffers:
        out.append(replace(buffer, offset=at))
        at += buffer.slots * buffer.bytes
    return tuple(out)


def shared_bytes(buffers: Sequence[Buffer], arefs: Sequence[Aref]) -> int:
    """Buffers and barriers."""
    return sum(b.slots * b.bytes for b in buffers) + sum(16 * a.depth for a in arefs)


def compute(kind: str, result: int, *operands: int | Reg | Expr, **attributes: int | str) -> Compute:
    """Fragments by number, as they are."""
    spelled = tuple(Reg(operand) if isinstance(operand, int) else operand for operand in operands)
    return Compute(kind, spelled, result, tuple(attributes.items()))


def simple(kernel: str, args: Sequence[Argument], fragments: Sequence[tuple[str, str, Layout]], body: Sequence[Stmt], *,
           buffers: Sequence[Buffer] = (), barriers: Sequence[NamedBarrier] = ()) -> WarpProgram:  # fmt: skip
    """One compute warp group without rings. fragments: (name, element, layout), numbered as they come."""
    held = tuple(Fragment(number, *fragment) for number, fragment in enumerate(fragments))
    group = WarpGroup(0, "compute", 128, 0, False, held, (), tuple(body))
    placed = place(buffers)
    program = tile_program(kernel, args)
    return counting(WarpProgram(program, "h100", (), placed, (), tuple(barriers), (group,), shared_bytes(placed, ())))


def gemm(groups: int = 2, columns: int = 128, depth: int = 4) -> WarpProgram:
    """C = A B of bf16, 64 rows for each consumer group, one multiply of 64 deep in flight; one stage."""
    program = tile_program("gemm", arguments(M="i32", N="i32", K="i32"))
    rows, block_k = 64 * groups, 64
    m = multiply(ProgramId(0), Number(rows))
    n = multiply(ProgramId(1), Number(columns))
    trip = Apply("div", (symbol(program, "K"), Number(block_k)), "i32", (("signed", 1),))
    maps = (
        TensorMapSpec(0, "A", "bf16", (None, None), (Number(1), Number(1)), Number(0), (rows, block_k), 128),
        TensorMapSpec(1, "B", "bf16", (None, None), (Number(1), Number(1)), Number(0), (block_k, 64), 128),
        TensorMapSpec(2, "C", "bf16", (None, None), (Number(1), Number(1)), Number(0), (64, 64), 128),
    )
    buffers = place([
        matrix(0, "a", (rows, block_k), "bf16", depth, 0),
        matrix(1, "b", (block_k, columns), "bf16", depth, 0),
        *(matrix(2 + g, f"c_{g}", (64, columns), "bf16", 1, 0) for g in range(groups)),
    ])  # fmt: skip
    everyone = tuple(range(1, groups + 1))
    ring = Aref(0, "a_b", (0, 1), depth, 0, everyone, "tma", 2 * (rows + columns) * block_k, 1, 4 * groups)
    k = multiply(Local("step"), Number(block_k))
    loads: tuple[Stmt, ...] = (
        Acquire(0, line=31),
        Expect(0, ring.bytes, line=31),
        TmaLoad(0, (m, k), SlotRef(0, 0), 0, line=31, note="a"),
        *(TmaLoad(1, (k, Apply("add", (n, Number(c)), "i32")), SlotRef(1, 0, columns=(c, c + 64)), 0, line=32, note="b")
          for c in range(0, columns, 64)),
        Advance(0),
    )  # fmt: skip
    load = WarpGroup(0, "load", 128, 40, True, (), (Cursor(0, "put", 0),),
                     (Pipeline("k", "step", trip, 0, (), loads, ()),))  # fmt: skip
    consumers = tuple(_gemm_consumer(g, groups, columns, trip) for g in everyone)
    barriers = tuple(NamedBarrier(g, f"c_{g}", (g + 1,), 128) for g in range(groups))
    shared = shared_bytes(buffers, (ring,))
    return counting(WarpProgram(program, "h100", maps, buffers, (ring,), barriers, (load, *consumers), shared))


def _gemm_consumer(g: int, groups: int, columns: int, trip: Expr) -> WarpGroup:
    base, cursor, done = 10 * g, 10 * g, 10 * g + 1
    acc, out = base, base + 1
    layout = Accumulator(64, columns)
    fragments = (Fragment(acc, "acc", "f32", layout), Fragment(out, "c", "bf16", layout))
    cursors = (Cursor(cursor, "get", 0), Cursor(done, "done", 0))
    a = SlotRef(0, cursor, rows=(64 * (g - 1), 64 * g))
    step: tuple[Stmt, ...] = (
        Get(cursor, line=33),
        Fence((acc,), line=33),
        Multiply(acc, a, SlotRef(1, cursor), False, False, 64, "bf16", True, line=33),
        Commit(line=33),
        Advance(cursor),
    )
    retire: tuple[Stmt, ...] = (Consumed(done, line=33), Advance(done))
    first = (If(less(Number(0), trip), step),)
    row = Apply("add", (multiply(ProgramId(0), Number(64 * groups)), Number(64 * (g - 1))), "i32")
    body: tuple[Stmt, ...] = (
        Fill(acc, Number(0.0, "f32"), line=29),
        Pipeline("k", "step", trip, 1, (first,), (*step, WaitGroups(1, (), line=33), *retire),
                 ((WaitGroups(0, (acc,)), *retire),), interval=256),  # fmt: skip
        compute("cast", out, acc),
        Let("row", row),
        BulkWait(0, True),
        Sync(g - 1),
        StoreShared(out, SlotRef(1 + g), line=36),
        ProxyFence(),
        Sync(g - 1),
        *(TmaStore(2, (Local("row"), Number(c)), SlotRef(1 + g, columns=(c, c + 64)), line=36)
          for c in range(0, columns, 64)),
        BulkCommit(),
    )  # fmt: skip
    return WarpGroup(g, f"multiply {g}", 128, 232, False, fragments, cursors, body, (BulkWait(0, False),))
