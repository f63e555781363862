"""The warp-free modulo schedule keeps dependences and units, and its I is minimal."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings

from tests.graphs import costed, edge, graph, instruction
from tests.strategies import problems
from tests.tile_programs import attention
from twill.exc import ImpossibleCycle
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.zlp.modulo import ModuloFailure, ModuloSchedule, modulo_schedule
from twill.zlp.recurrence import Arc, certain_arcs, positive_cycle


def scheduled(costed_graph: CostedGraph) -> ModuloSchedule:
    found = modulo_schedule(costed_graph)
    assert isinstance(found, ModuloSchedule)
    return found


def rows(costed_graph: CostedGraph, ii: int, starts: dict[int, int]) -> list[tuple[str, int]]:
    """(unit, row) of every busy cycle of units that do one thing at a time."""
    return [
        (use.unit, (starts[i.id] + use.start + cycle) % ii)
        for i in costed_graph.instructions
        for use in i.uses
        if use.unit not in costed_graph.interleaved
        for cycle in range(use.cycles)
    ]


def units_allow(costed_graph: CostedGraph, ii: int, starts: dict[int, int]) -> bool:
    uses = [use for i in costed_graph.instructions for use in i.uses]
    if any(sum(use.cycles for use in uses if use.unit == unit) > ii for unit in costed_graph.interleaved):
        return False
    busy = rows(costed_graph, ii, starts)
    return len(busy) == len(set(busy))


def some_rows_work(costed_graph: CostedGraph, ii: int) -> bool:
    """By trying every row of every instruction: units are free, and stages exist for the dependences.

    t = row + I·stage, so an edge asks stage(dst) − stage(src) ≥ ⌈(delay + row(src) − row(dst)) / I⌉ − δ,
    which has a solution if and only if no cycle of edges asks for more than nothing.
    """
    ids = [i.id for i in costed_graph.instructions]
    for chosen in itertools.product(range(ii), repeat=len(ids)):
        row = dict(zip(ids, chosen, strict=True))
        if not units_allow(costed_graph, ii, row):
            continue
        arcs = [
            Arc(a.src, a.dst, -((row[a.dst] - row[a.src] - a.delay) // ii) - a.distance, 0)
            for a in certain_arcs(costed_graph)
        ]
        if not positive_cycle(ids, arcs, 0):
            return True
    return False


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(problems(most_instructions=3, most_cycles=3))
def test_the_interval_is_the_smallest_that_any_rows_allow(problem: tuple[CostedGraph, Machine]) -> None:
    costed_graph, _ = problem
    found = scheduled(costed_graph)
    assert found.ii == found.lower_bound and min(found.starts.values()) == 0
    assert units_allow(costed_graph, found.ii, found.starts)
    for e in costed_graph.edges:
        assert found.starts[e.dst] + e.distance * found.ii >= found.starts[e.src] + e.delay
    assert found.length == max(found.starts[i.id] + i.latency for i in costed_graph.instructions)
    assert not any(some_rows_work(costed_graph, ii) for ii in range(1, found.ii))


def test_units_can_need_more_than_their_sum() -> None:
    """Two uses of one unit, three cycles apart, in each of two instructions: I = 4 would do for the sum."""
    parts = []
    for number in range(2):
        base = instruction(number, ("alu", 1))
        parts.append(base.model_copy(update={"uses": (base.uses[0], base.uses[0].model_copy(update={"start": 2}))}))
    found = scheduled(graph(tuple(parts)))
    assert found.ii == found.lower_bound == 4
    parts[0] = parts[0].model_copy(
        update={"uses": (parts[0].uses[0], parts[0].uses[0].model_copy(update={"start": 4}))}
    )
    assert scheduled(graph(tuple(parts))).ii == 5  # at I = 4 the first one meets itself


def test_interleaved_units_only_sum() -> None:
    base = instruction(0, ("alu", 2), latency=4)
    apart = base.model_copy(update={"uses": (base.uses[0], base.uses[0].model_copy(update={"start": 4}))})
    assert scheduled(graph((apart,))).ii == 6  # modulo 4 the two uses meet, modulo 5 their ends do
    assert scheduled(graph((apart,)).model_copy(update={"interleaved": ("alu",)})).ii == 4


def test_the_length_is_the_shortest_at_that_interval() -> None:
    chain = (instruction(0, ("alu", 2)), instruction(1, ("tensor", 3)), instruction(2, ("alu", 2)))
    found = scheduled(graph(chain, (edge(0, 1, 2), edge(1, 2, 3))))
    assert (found.ii, found.length, found.copies) == (4, 8, 2)  # the two alu uses may not meet modulo 4
    assert found.proven_length


def test_no_time_is_a_failure_with_the_bound_that_is_known() -> None:
    found = modulo_schedule(graph((instruction(0, ("alu", 7)),)), seconds=0.0)
    assert isinstance(found, ModuloFailure) and found.lower_bound == 7


def test_a_chain_that_waits_for_itself_is_refused() -> None:
    with pytest.raises(ImpossibleCycle):
        modulo_schedule(graph((instruction(0),), (edge(0, 0, 1),)))


def test_attention_with_exact_costs_meets_its_resource_bound() -> None:
    found = scheduled(costed(attention(), load_machine("h100")))
    assert found.ii == found.lower_bound and found.proven_length and found.copies >= 2
