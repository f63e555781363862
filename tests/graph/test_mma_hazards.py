"""Promises of `twill.graph.mma_hazards`: which instructions keep away from which products."""

from __future__ import annotations

from tests.graphs import costed
from tests.kernels import H100
from tests.tile_programs import attention, gemm
from twill.graph.costed import CostedGraph
from twill.graph.mma_hazards import awaited, hazard_pairs, is_mma, one_result


def named(graph: CostedGraph, number: int) -> str:
    found = graph.instructions[number]
    return f"{found.name} {found.op}"


def test_products_are_known_from_loads() -> None:
    graph = costed(attention(), H100)
    assert sorted(i.op for i in graph.instructions if is_mma(i)) == ["dot", "dot"]


def test_who_writes_an_accumulator_or_an_operand_keeps_away_from_every_product() -> None:
    graph = costed(attention(), H100)
    pairs = [(named(graph, writer), named(graph, mma)) for writer, mma in hazard_pairs(graph)]
    assert pairs == [(w, p) for w in ("acc mul", "cast") for p in ("qk dot", "acc dot")] or sorted(pairs) == sorted(
        (w, p) for w in {w for w, _ in pairs} for p in ("qk dot", "acc dot")
    )
    writers = {writer for writer, _ in pairs}
    assert len(writers) == 2 and any(w.endswith("cast") for w in writers) and "acc mul" in writers


def test_products_alone_keep_away_from_nothing() -> None:
    graph = costed(gemm(), H100)
    assert hazard_pairs(graph) == ()
    assert one_result(graph) == graph
    assert not any(awaited(graph, edge) for edge in graph.edges)


def test_a_product_waits_for_the_readers_of_its_last_result() -> None:
    graph = costed(attention(), H100)
    new = [e for e in one_result(graph).edges if e not in graph.edges]
    assert new and all(e.kind == "anti" and e.distance == 1 and named(graph, e.dst) == "qk dot" for e in new)
    readers = {
        read.reader for value in graph.values for read in value.reads if named(graph, value.producer) == "qk dot"
    }
    assert {e.src for e in new} == readers
    assert all(e.delay == graph.instructions[e.src].hold for e in new)
