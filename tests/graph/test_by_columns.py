"""Promises of `twill.graph.by_columns`: which products that join row blocks are made in parts of their columns."""

from __future__ import annotations

import pytest

from tests.kernels import B200, H100, costed_example, example
from twill.graph.by_columns import by_columns
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import Cooperation, CostedGraph
from twill.graph.dependence import DependenceGraph, Edge, Region
from twill.machine.description import Machine
from twill.schedule import key
from twill.schedule.key import schedule_key
from twill.smt.blocks import blocks_alike
from twill.solve.pipeline import main_region

GRAPH = example("attention_backward", "full")
REGION = main_region(GRAPH)
KEYS = next(d.id for d in GRAPH.dims if d.name == "m")
DQ = next(n for n in REGION.nodes if n.name == "dq")
STORE = next(n for n in REGION.nodes if n.kind == "reduce_store")


def shares(graph: DependenceGraph = GRAPH, machine: Machine = H100) -> tuple[Cooperation, ...]:
    return tuple(c for c in cooperations(graph, main_region(graph), machine) if c.columns)


def costed() -> CostedGraph:
    (cooperation,) = shares()
    return cost(GRAPH, REGION, H100, cooperation)


def cut(region: Region) -> set[int]:
    return set(by_columns(GRAPH, region, KEYS, 2))


def test_dq_and_its_reduction_are_cut_along_the_columns_of_dq() -> None:
    assert DQ.mma is not None
    assert by_columns(GRAPH, REGION, KEYS, 2) == {DQ.id: DQ.mma.n_dim, STORE.id: DQ.mma.n_dim}


@pytest.mark.parametrize("parts", [1, 3, 4])
def test_parts_begin_at_panels_of_operand_b(parts: int) -> None:
    assert by_columns(GRAPH, REGION, KEYS, parts) == {}


def test_nothing_joins_where_another_dimension_is_split() -> None:
    assert all(not by_columns(GRAPH, REGION, d.id, 2) for d in GRAPH.dims if d.name == "n")
    assert not by_columns(GRAPH, REGION, -1, 2)


def test_what_cannot_be_cut_keeps_its_product_whole() -> None:
    by_threads = tuple(n.model_copy(update={"transport": "plain"}) if n == STORE else n for n in REGION.nodes)
    assert cut(REGION.model_copy(update={"nodes": by_threads})) == set()
    other = next(n.id for n in REGION.nodes if n.name == "dk")
    for edge in (
        Edge(src=DQ.id, dst=DQ.id, distance=1, kind="value", operand="c"),
        Edge(src=DQ.id, dst=other, distance=0, kind="value", operand="b"),
        Edge(src=other, dst=STORE.id, distance=0, kind="value", operand="in"),
    ):
        assert cut(REGION.model_copy(update={"edges": (*REGION.edges, edge)})) == set()


def test_every_row_block_has_its_share_of_the_work_and_reads_all_of_ds() -> None:
    alone, shared = costed_example("attention_backward", "full", split=2), costed()
    dq = [i for i in shared.instructions if i.name == "dq"]
    whole = next(i for i in alone.instructions if i.name == "dq")
    assert [i.block for i in dq] == [0, 1] and sum(i.uses[0].cycles for i in dq) == whole.uses[0].cycles
    ds = {v.producer for v in shared.values if v.name == "dsT" and v.space == "shared"}
    assert all({e.src for e in shared.edges if e.dst == i.id} == ds and len(ds) == 2 for i in dq)
    assert [v.registers for v in shared.values if v.name == "dq"] == [32, 32]
    assert [v.bytes for v in shared.values if v.name == "dq_desc staging"] == [16384, 16384]
    keys = [i.readers for i in shared.invariants if i.name == "k"]
    assert all({i.id for i in dq} <= set(readers) for readers in keys)


def test_the_products_of_a_row_block_are_of_one_warp_group() -> None:
    mmas = [i for i in costed().instructions if i.unit == "tensor"]
    assert {i.single_issuer for i in mmas if i.block == 0} == {"row block 0"}
    assert {i.single_issuer for i in mmas if i.block == 1} == {"row block 1"}


def test_row_blocks_that_read_each_other_in_the_same_way_are_alike() -> None:
    graph = costed()
    assert blocks_alike(graph)
    producer = next(i.id for i in graph.instructions if i.op == "register to shared" and i.block == 0)
    edges = tuple(e.model_copy(update={"delay": e.delay + 1}) if e.src == producer else e for e in graph.edges)
    assert not blocks_alike(graph.model_copy(update={"edges": edges}))


def test_only_split_tiles_share_and_only_where_sums_are_in_registers() -> None:
    assert [(c.split, c.fuse) for c in shares()] == [(2, 1)]
    assert shares(machine=B200) == () and shares(example("attention", "full")) == ()


def test_schedules_from_before_shares_were_chosen_have_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [GRAPH, example("attention", "full")]
    now = [schedule_key(graph, H100.digest()) for graph in graphs]
    monkeypatch.setattr(key, "may_share", lambda graph: False)
    before = [schedule_key(graph, H100.digest()) for graph in graphs]
    assert now[0] != before[0] and now[1] == before[1]


def test_a_cooperation_without_shares_reads_as_it_always_did() -> None:
    plain = Cooperation(dim="m", split=2, fuse=1)
    assert "columns" not in plain.canonical()
    for one in (plain, plain.model_copy(update={"columns": True})):
        assert Cooperation.parse(one.canonical()) == one
