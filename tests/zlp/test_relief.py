"""Warp groups with enough registers, where those that spread work have too few."""

from __future__ import annotations

from tests.graphs import edge, graph, instruction, value
from tests.kernels import H100
from twill.graph.costed import CostedGraph
from twill.zlp.relief import lacking, relieved
from twill.zlp.sequential import sequential_schedule

BIG = 160  # registers of a thread that an accumulator takes


def two_accumulators() -> CostedGraph:
    """v0 loads, v1 adds it up, v2 makes a number of the sum, and v3 adds that up: both sums are always alive."""
    ops = (instruction(0, ("tma", 4), asynchronous=True), *(instruction(v, ("alu", 4)) for v in (1, 2, 3)))
    edges = (edge(0, 1, 4), edge(1, 2, 4), edge(2, 3, 4), edge(1, 1, 4, 1), edge(3, 3, 4, 1))
    return graph(
        ops, edges,
        (value(1, (2, 0), (1, 1), size=BIG), value(2, (3, 0), size=1), value(3, (3, 1), size=BIG)),
    )  # fmt: skip


def test_what_has_too_many_registers_goes_to_another_warp_group() -> None:
    loop = two_accumulators()
    together = (4, 0, 0, 0)
    assert lacking(loop, H100, together) > 0
    assert sequential_schedule(loop, H100, [together], thrifty=True) is None
    *_, found = relieved(loop, H100, [together])
    assert lacking(loop, H100, found) == 0
    assert sequential_schedule(loop, H100, [found], thrifty=True) is not None


def test_what_is_fixed_stays_in_its_warp_group() -> None:
    loop = two_accumulators()
    assert not [*relieved(loop, H100, [(4, 0, 0, 0)], dict.fromkeys(range(4), 0))]


def test_no_more_is_tried_than_there_is_effort_for() -> None:
    assert not [*relieved(two_accumulators(), H100, [(4, 0, 0, 0)], effort=3 * 16)]
    assert [*relieved(two_accumulators(), H100, [(4, 0, 0, 0)], effort=40 * 16)]
