"""Promises of `twill.codegen.lower.stores`: tiles leave through staging buffers that are free, and nothing is left
behind."""

from __future__ import annotations

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import Programs, attention, gemm
from twill.codegen.lowering import lower
from twill.codegen.warp.program import (
    BulkCommit,
    BulkWait,
    ProxyFence,
    Stmt,
    StoreGlobal,
    StoreShared,
    Sync,
    TmaStore,
    WarpGroup,
    WarpProgram,
    walk,
)

STORES = (BulkWait, Sync, StoreShared, ProxyFence, TmaStore, BulkCommit)


def lowered(blocks: int = 1) -> WarpProgram:
    program = gemm()
    return lower(program, scheduled(program, blocks), H100)


def storing(program: WarpProgram) -> list[WarpGroup]:
    return [g for g in program.groups if any(isinstance(s, TmaStore) for s in walk(g.body))]


def stores(group: WarpGroup) -> list[Stmt]:
    """Without the turns of groups that share program instances."""
    found = (stmt for stmt in walk(group.body) if isinstance(stmt, STORES))
    return [stmt for stmt in found if "turn" not in stmt.note]


def test_a_staging_buffer_is_waited_for_written_fenced_and_copied() -> None:
    group, other = storing(lowered())  # they take program instances alternately
    assert [type(stmt) for stmt in stores(other)] == [type(stmt) for stmt in stores(group)]
    kinds = [type(stmt) for stmt in stores(group)]
    copies = kinds.count(TmaStore)
    rounds = kinds.count(BulkCommit)
    each = [BulkWait, Sync, StoreShared, ProxyFence, Sync, *[TmaStore] * (copies // rounds), BulkCommit]
    assert kinds == each * rounds


def test_every_element_is_stored_once() -> None:
    program = lowered(2)
    for group in storing(program):
        tile = next(f for f in group.fragments if f.name.startswith("c"))
        covered = []
        columns = (0, 0)
        for stmt in stores(group):
            if isinstance(stmt, StoreShared):
                columns = stmt.columns or (0, 128)
                assert stmt.operand == tile.id
            if isinstance(stmt, TmaStore):
                inside = stmt.source.columns or (0, columns[1] - columns[0])
                covered.append((columns[0] + inside[0], columns[0] + inside[1]))
        assert [start for start, _ in covered] == [0, *(end for _, end in covered[:-1])]
        assert covered[-1][1] == 128


def test_groups_stage_apart() -> None:
    program = lowered(2)
    groups = storing(program)
    used = [{s.target.buffer for s in stores(g) if isinstance(s, StoreShared)} for g in groups]
    assert len(groups) == 2 and not used[0] & used[1]
    for group in groups:
        own = [barrier.id for barrier in program.barriers if barrier.groups == (group.id,)]
        syncs = [s.barrier for s in stores(group) if isinstance(s, Sync) and s.barrier in own]
        assert len(own) == 1 and len(syncs) == 2 * sum(isinstance(s, BulkCommit) for s in stores(group))


def test_nothing_is_on_its_way_when_the_kernel_ends() -> None:
    for group in lowered().groups:
        ends = [stmt for stmt in group.finish if isinstance(stmt, BulkWait)]
        assert [(stmt.pending, stmt.read) for stmt in ends] == ([(0, False)] if group in storing(lowered()) else [])


def test_vectors_are_stored_by_threads() -> None:
    """The normalizer of attention is one number for each row: no tile for a tensor copy."""
    program = attention()
    made = lower(program, scheduled(program, 2), H100)
    windows = [s.window for g in made.groups for s in walk(g.body) if isinstance(s, StoreGlobal)]
    assert [(window.argument, window.axes[0].extent) for window in windows] == [("L", 64), ("L", 64)]


def test_a_reduction_to_memory_says_what_it_combines() -> None:
    p = Programs()
    zeros = p.constant(0.0, (64, 64), "f32")
    with p.loop(p.argument("trips"), [zeros]) as k:
        a, b = p.load("A", (64, 64), at=(0, k.i * 64)), p.load("B", (64, 64), at=(k.i * 64, 0))
        k.yields = [p.dot(a, b, k.carried[0], name="acc")]
    p.store("C", k.results[0], at=(0, 0), combine="add")
    program = p.done()
    made = lower(program, scheduled(program), H100)
    assert {s.combine for g in made.groups for s in walk(g.body) if isinstance(s, TmaStore)} == {"add"}
