"""The exhaustive solver is right: it agrees with trying every start, one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings

from tests.exhaustive import optimum
from tests.groupings import groupings
from tests.rules import Plan, broken, copies, crossing, least_budget, length, registers
from tests.strategies import make_graph, make_machine, problems
from twill.graph.costed import CostedEdge, CostedGraph, Instruction, Use
from twill.machine.description import Machine

Figures = tuple[int, int, int, int, int]


def by_brute_force(graph: CostedGraph, machine: Machine, most_ii: int) -> Figures | None:
    """The best objectives over every start up to the horizon for two instructions.

    Delays and crossings of the graphs drawn here add up to at most 6 cycles, distances to 2.
    """
    for ii in range(1, most_ii + 1):
        best: Figures | None = None
        for grouping in groupings(graph, machine):
            for starts in product(range((max(2, 1 - (-6 // ii)) + 1) * ii), repeat=len(graph.instructions)):
                plan = Plan(ii, starts, grouping.groups, grouping.contexts)
                budgets = tuple(
                    least_budget(registers(graph, plan, group), machine.context(name), machine.register_file.granule)
                    for group, name in enumerate(plan.contexts)
                )
                if broken(graph, machine, plan, budgets):
                    continue
                figures = (ii, copies(graph, plan), crossing(graph, plan.groups), length(graph, plan), sum(budgets))
                best = figures if best is None else min(best, figures)
        if best is not None:
            return best
    return None


@settings(max_examples=60, derandomize=True)
@given(problems(most_instructions=2, most_cycles=3))
def test_optimum_is_the_best_of_all_starts(problem: tuple[CostedGraph, Machine]) -> None:
    graph, machine = problem
    found = optimum(graph, machine, most_ii=5)
    figures = found and (found.ii, found.copies, found.crossing, found.length, found.registers)
    assert figures == by_brute_force(graph, machine, most_ii=5)


def test_recurrence_sets_the_interval() -> None:
    machine = make_machine()
    graph = make_graph(machine, (chain(0, 2), chain(1, 3)), (edge(0, 1, 2, 0), edge(1, 0, 3, 1)))
    found = optimum(graph, machine, 16)
    assert found is not None
    assert (found.ii, found.copies, found.length) == (5, 1, 5)


def test_two_warp_groups_overlap_what_one_cannot() -> None:
    ops = (chain(0, 4, "alu"), chain(1, 4, "tensor"))
    alone, together = make_machine(compute_groups=1), make_machine(compute_groups=2)
    assert [o and o.ii for o in (optimum(make_graph(m, ops), m, 16) for m in (alone, together))] == [8, 4]


def chain(number: int, cycles: int, unit: str = "alu") -> Instruction:
    """A synchronous instruction."""
    return Instruction(
        id=number,
        name=f"x{number}",
        op="chain",
        unit=unit,
        line=number + 1,
        block=-1,
        uses=(Use(unit=unit, start=0, cycles=cycles),),
        latency=cycles,
        hold=cycles,
        asynchronous=False,
        variable_latency=False,
        contexts=("compute",),
    )


def edge(src: int, dst: int, delay: int, distance: int) -> CostedEdge:
    """A value edge that costs nothing to cross."""
    return CostedEdge(src=src, dst=dst, delay=delay, distance=distance, crossing=0, kind="value")
