"""A warp program of attention with a causal mask, written by hand: A in registers, a loop of two stages."""

from __future__ import annotations

from tests.printed_programs import arguments, compute, matrix, place, shared_bytes, symbol, tile_program
from tests.warp_programs import counting
from twill.codegen.warp.expression import Apply, Local, Number, ProgramId, multiply
from twill.codegen.warp.layout import Accumulator, Along, Layout
from twill.codegen.warp.program import (
    Acquire,
    Advance,
    Aref,
    BulkCommit,
    BulkWait,
    Commit,
    Consumed,
    Cursor,
    Expect,
    Fence,
    Fill,
    Fragment,
    Get,
    LoadShared,
    Multiply,
    NamedBarrier,
    Operand,
    Pipeline,
    ProxyFence,
    Range,
    Reduce,
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
from twill.tile.program import TileProgram

DEPTH = 128  # of a head
ROWS = (0, -1)  # a row vector, spread over the columns


def attention(groups: int = 2, keys: int = 128, masked: bool = True) -> WarpProgram:
    """One role that loads, `groups` with 64 queries each; Q in registers, S of the next keys while O takes the last."""
    program = tile_program("attention", arguments(LSE="ptr:f32", scale="f32", N="i32"))
    trip = Apply("div", (symbol(program, "N"), Number(keys)), "i32", (("signed", 1),))
    maps = tuple(
        TensorMapSpec(n, name, "bf16", (None, None), (Number(1), Number(1)), Number(0), (rows, 64), 128)
        for n, (name, rows) in enumerate((("Q", 64), ("K", keys), ("V", keys), ("O", 64)))
    )
    buffers = place(
        [
            matrix(0, "q", (64, DEPTH), "bf16", groups, 0),
            matrix(1, "k", (keys, DEPTH), "bf16", 2, 0),
            matrix(2, "v", (keys, DEPTH), "bf16", 2, 0),
            *(matrix(3 + g, f"o_{g}", (64, DEPTH), "bf16", 1, 0) for g in range(groups)),
        ]
    )
    everyone = tuple(range(1, groups + 1))
    tile = keys * DEPTH * 2
    rings = (
        Aref(0, "q", (0,), groups, 0, everyone, "tma", 64 * DEPTH * 2, 1, 4),
        Aref(1, "k", (1,), 2, 0, everyone, "tma", tile, 1, 4 * groups),
        Aref(2, "v", (2,), 2, 0, everyone, "tma", tile, 1, 4 * groups),
    )
    load = _load(groups, keys, trip)
    consumers = tuple(_consumer(program, g, groups, keys, trip, masked) for g in everyone)
    barriers = tuple(NamedBarrier(g, f"o_{g}", (g + 1,), 128) for g in range(groups))
    shared = shared_bytes(buffers, rings)
    return counting(WarpProgram(program, "h100", maps, buffers, rings, barriers, (load, *consumers), shared))


def _load(groups: int, keys: int, trip: Apply) -> WarpGroup:
    def both(ring: int, buffer: int, rows: Apply | Local) -> tuple[Stmt, ...]:
        halves = (TmaLoad(buffer, (rows, Number(c)), SlotRef(buffer, ring, columns=(c, c + 64)), ring) for c in (0, 64))
        size = (64 if buffer == 0 else keys) * DEPTH * 2
        return (Acquire(ring), Expect(ring, size), *halves, Advance(ring))

    first = multiply(ProgramId(0), Number(64 * groups))
    queries = [s for g in range(groups) for s in both(0, 0, Apply("add", (first, Number(64 * g)), "i32"))]
    start = Apply("mul", (Local("j"), Number(keys)), "i32")
    loop = Pipeline("keys", "j", trip, 0, (), (*both(1, 1, start), *both(2, 2, start)), ())
    cursors = (Cursor(0, "q_put", 0), Cursor(1, "k_put", 1), Cursor(2, "v_put", 2))
    return WarpGroup(0, "load", 128, 24, True, (), cursors, (*queries, loop))


class _Numbers:
    """Fragments of one role by name."""

    def __init__(self, base: int, keys: int) -> None:
        scores, output = Accumulator(64, keys), Accumulator(64, DEPTH)
        rows = Along(scores, 1)
        kinds: dict[str, tuple[str, Layout]] = {
            "q": ("bf16", output), "s": ("f32", scores), "p": ("bf16", scores), "acc": ("f32", output),
            "o": ("bf16", output), "m": ("f32", rows), "m_new": ("f32", rows), "l": ("f32", rows),
            "alpha": ("f32", rows), "row_sum": ("f32", rows), "offs_m": ("i32", rows),
            "offs_n": ("i32", Along(scores, 0)), "visible": ("i1", scores), "lse": ("f32", rows),
        }  # fmt: skip
        self.fragments = tuple(Fragment(base + n, name, *kinds[name]) for n, name in enumerate(kinds))
        self._numbers = {fragment.name: fragment.id for fragment in self.fragments}

    def __getitem__(self, name: str) -> int:
        return self._numbers[name]


def _consumer(program: TileProgram, g: int, groups: int, keys: int, trip: Apply, masked: bool) -> WarpGroup:
    f = _Numbers(20 * g, keys)
    q_get, k_get, k_done, v_get, v_done = (30 * g + n for n in range(5))
    cursors = (Cursor(q_get, "q_get", 0), Cursor(k_get, "k_get", 1), Cursor(k_done, "k_done", 1),
               Cursor(v_get, "v_get", 2), Cursor(v_done, "v_done", 2))  # fmt: skip
    scale = symbol(program, "scale")

    def row(name: str) -> Operand:
        return Reg(f[name], ROWS)

    issue_scores: tuple[Stmt, ...] = (
        Get(k_get, line=40), Fence((f["s"], f["q"]), line=40),
        Multiply(f["s"], f["q"], SlotRef(1, k_get), False, True, DEPTH, "bf16", False, line=40),
        Commit(line=40), Advance(k_get),
    )  # fmt: skip
    issue_output: tuple[Stmt, ...] = (
        Get(v_get, line=52), Fence((f["acc"], f["p"]), line=52),
        Multiply(f["acc"], f["p"], SlotRef(2, v_get), False, False, keys, "bf16", True, line=52),
        Commit(line=52), Advance(v_get),
    )  # fmt: skip
    start = multiply(Local("j"), Number(keys))
    mask: tuple[Stmt, ...] = (
        Range(f["offs_n"], 0, line=43),
        compute("add", f["offs_n"], f["offs_n"], start),
        compute("compare", f["visible"], row("offs_m"), Reg(f["offs_n"], (-1, 0)), predicate="ge", signed=1),
        compute("select", f["s"], f["visible"], f["s"], Number(-1.0e6, "f32")),
    )  # fmt: skip
    softmax: tuple[Stmt, ...] = (
        *(mask if masked else ()),
        Reduce(f["s"], f["m_new"], 1, "max", line=46),
        compute("mul", f["m_new"], f["m_new"], scale),
        compute("max", f["m_new"], f["m"], f["m_new"]),
        compute("mul", f["s"], f["s"], scale), compute("sub", f["s"], f["s"], row("m_new")),
        compute("exp2", f["s"], f["s"]),
        compute("sub", f["alpha"], f["m"], f["m_new"]), compute("exp2", f["alpha"], f["alpha"]),
        Reduce(f["s"], f["row_sum"], 1, "add", line=50),
        compute("mul", f["l"], f["l"], f["alpha"]), compute("add", f["l"], f["l"], f["row_sum"]),
    )  # fmt: skip
    retire_k: tuple[Stmt, ...] = (Consumed(k_done), Advance(k_done))
    retire_v: tuple[Stmt, ...] = (Consumed(v_done), Advance(v_done))
    after: tuple[Stmt, ...] = (
        compute("cast", f["p"], f["s"]), compute("mul", f["acc"], f["acc"], row("alpha")),
        compute("max", f["m"], f["m_new"], f["m_new"]),
    )  # fmt: skip
    first = (*issue_scores, WaitGroups(0, (f["s"],)), *retire_k, *softmax, *after)
    steady = (
        *issue_scores, *issue_output, WaitGroups(1, (f["s"],)), *retire_k, *softmax,
        WaitGroups(0, (f["acc"], f["p"])), *retire_v, *after,
    )  # fmt: skip
    last = (*issue_output, WaitGroups(0, (f["acc"], f["p"])), *retire_v)
    tile = multiply(ProgramId(0), Number(64 * groups))
    rows = Apply("add", (tile, Number(64 * (g - 1))), "i32")
    out = SlotRef(2 + g)
    skip = tuple(Advance(q_get) for _ in range(g - 1))
    rest = tuple(Advance(q_get) for _ in range(groups - g + 1))
    window = Window("LSE", "f32", (WindowAxis(64, Number(1), rows, None, symbol(program, "N")),), Number(0), 0.0)
    body: tuple[Stmt, ...] = (
        *skip, Get(q_get), LoadShared(SlotRef(0, q_get), f["q"]), Consumed(q_get), *rest,
        Fill(f["acc"], Number(0.0, "f32")), Fill(f["m"], Number(float("-inf"), "f32")),
        Fill(f["l"], Number(0.0, "f32")),
        Range(f["offs_m"], 0), compute("add", f["offs_m"], f["offs_m"], rows),
        Pipeline("keys", "j", trip, 1, (first,), steady, (last,), interval=1100),
        compute("log2", f["lse"], f["l"]), compute("add", f["lse"], f["lse"], f["m"]),
        StoreGlobal(window, Reg(f["lse"])),
        compute("div", f["acc"], f["acc"], row("l")), compute("cast", f["o"], f["acc"]),
        BulkWait(0, True), Sync(g - 1), StoreShared(f["o"], out), ProxyFence(), Sync(g - 1),
        *(TmaStore(3, (rows, Number(c)), SlotRef(2 + g, columns=(c, c + 64))) for c in (0, 64)), BulkCommit(),
    )  # fmt: skip
    return WarpGroup(g, f"attend {g}", 128, 240, False, f.fragments, cursors, body, (BulkWait(0, False),))
