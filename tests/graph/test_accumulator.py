"""Promises of `twill.graph.accumulator`: what products add to stays in one place."""

from __future__ import annotations

from functools import cache

from tests.kernels import H100
from twill.graph.accumulator import accumulators, overwriting
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph
from twill.graph.dependence import Region
from twill.graph.extract import extract
from twill.solve.pipeline import main_region
from twill.zlp.bounds import lower_bounds
from twill.zlp.heuristic import heuristic_schedule

PARTS = "tests/part_kernels.py"


@cache
def loop(spec: str) -> Region:
    return main_region(extract(PARTS, spec)[1])


@cache
def two_row_blocks(spec: str) -> CostedGraph:
    graph = extract(PARTS, spec)[1]
    chosen = next(c for c in cooperations(graph, loop(spec), H100) if (c.split, c.fuse) == (2, 1))
    return cost(graph, loop(spec), H100, chosen)


def test_the_products_that_one_statement_became_add_up_in_one_place() -> None:
    region = loop("tf32x3")
    mmas = [node.id for node in region.nodes if node.kind == "mma"]
    (one,) = accumulators(region)
    assert len(mmas) == 6
    assert set(mmas) < set(one)
    costed = two_row_blocks("tf32x3")
    mine = [v for v in costed.values if costed.instructions[v.producer].source in one and v.space == "register"]
    assert [v.registers for v in mine if v.block == 0 and v.registers] == [64]
    assert not costed.storages


def test_such_a_sum_is_begun_anew_when_it_was_read() -> None:
    region = loop("tf32x3")
    (edge,) = overwriting(region)
    (one,) = accumulators(region)
    assert edge.dst == one[0]
    assert edge.distance == 1
    assert edge.src not in one
    assert edge in region.edges


def test_a_tile_that_is_converted_on_its_way_through_shared_memory_has_registers() -> None:
    graph = two_row_blocks("int8")
    (work,) = graph.invariants
    (reader,) = work.readers
    assert graph.instructions[reader].name == "b_bf16"
    assert work.registers == 64 * 128 * 2 // 512


def test_a_schedule_of_products_in_parts_is_found_without_a_question() -> None:
    graph = two_row_blocks("tf32x3")
    assert heuristic_schedule(graph, H100, lower_bounds(graph, H100).best) is not None
