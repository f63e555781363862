"""Promises of `twill.zlp.exchange_order`: row blocks that exchange tiles do not begin the MMAs behind it at once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.golden_schedules import Example, schedule
from twill.graph.costed import CostedGraph
from twill.graph.mma_hazards import hazard_pairs, is_mma
from twill.zlp.exchange_order import exchange_order, joins
from twill.zlp.placement import demands

BACKWARD = Example("examples/attention_backward.py", "full")


def ordered(example: Example) -> tuple[CostedGraph, list[int] | None]:
    """The main loop of the kept schedule, and the order of its instructions."""
    (loop,) = (one for one in schedule(example).loops if one.objective == schedule(example).objective)
    group = {op.id: op.warp_group for op in schedule(example).ops if op.loop == loop.loop}
    groups = [group[instruction.id] for instruction in loop.graph.instructions]
    return loop.graph, exchange_order(loop.graph, groups, demands(loop.graph, groups).arcs)


@pytest.mark.parametrize("spec", ["full", "causal"])
def test_the_mma_that_joins_row_blocks_is_first_in_one_of_them_and_second_in_the_other(spec: str) -> None:
    graph, order = ordered(Example("examples/attention_backward.py", spec))
    assert order is not None and sorted(order) == list(range(len(graph.instructions)))
    names = [
        [
            graph.instructions[v].name
            for v in order
            if is_mma(graph.instructions[v]) and graph.instructions[v].block == b
        ]
        for b in (0, 1)
    ]
    assert names == [["qkT", "dpT", "dq", "dv", "dk"], ["qkT", "dpT", "dv", "dq", "dk"]]


def test_what_waits_comes_behind_what_it_waits_for() -> None:
    graph, order = ordered(BACKWARD)
    assert order is not None
    place = {v: at for at, v in enumerate(order)}
    assert all(place[edge.src] < place[edge.dst] for edge in graph.edges if not edge.distance)


def test_no_operand_in_registers_is_written_between_the_mmas_behind_the_exchange() -> None:
    """The compiler would wait for those in flight."""
    graph, order = ordered(BACKWARD)
    assert order is not None
    place, writers = {v: at for at, v in enumerate(order)}, {writer for writer, _ in hazard_pairs(graph)}
    for join in joins(graph):
        block = graph.instructions[join].block
        mine = [v for v in order if graph.instructions[v].block == block]
        behind = [v for v in mine if is_mma(graph.instructions[v])][-3:]
        assert join in behind
        for first, second in pairwise(behind):
            assert not writers & {v for v in mine if place[first] < place[v] < place[second]}


def test_there_is_none_where_no_mma_reads_what_another_row_block_makes() -> None:
    assert ordered(Example("examples/attention.py", "full"))[1] is None
