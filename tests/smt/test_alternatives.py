"""Alternatives are all the schedules that are as good, each once, and none that is not."""

from __future__ import annotations

from itertools import islice

from hypothesis import HealthCheck, assume, given, settings

from tests.graphs import edge, graph, instruction
from tests.smt.test_compaction import refusals
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.alternatives import alternatives
from twill.smt.assignment import Assignment
from twill.smt.limits import Limits
from twill.smt.problem import Problem
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds

QUIET = settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))


def optimum(costed: CostedGraph, machine: Machine) -> Assignment | None:
    """An optimal assignment, if there is any."""
    return Search(costed, machine, lower_bounds(costed, machine)).run().assignment


def looks(a: Assignment) -> tuple[object, ...]:
    """What tells assignments apart: who is with whom, in which order, in which stage."""
    groups: dict[int, list[int]] = {}
    for v in sorted(range(len(a.start)), key=lambda v: (a.start[v] % a.ii, v)):
        groups.setdefault(a.slot[v], []).append(v)
    return frozenset(map(tuple, groups.values())), tuple(t // a.ii for t in a.start)


@QUIET
@given(problems(most_instructions=5, most_cycles=4))
def test_alternatives_are_as_good_valid_and_different(problem: tuple[CostedGraph, Machine]) -> None:
    costed, machine = problem
    best = optimum(costed, machine)
    assume(best is not None)
    assert best is not None
    found = [best, *islice(alternatives(Problem(costed, machine), best, Limits()), 4)]
    assert len({looks(a) for a in found}) == len(found)
    for a in found[1:]:
        assert refusals(a) == ()
        figures = (a.ii, a.copies, a.crossing, a.length, a.registers)
        assert figures == (best.ii, best.copies, best.crossing, best.length, best.registers)


def test_independent_instructions_of_one_unit_have_every_order() -> None:
    costed = graph(tuple(instruction(k, ("alu", c)) for k, c in enumerate((2, 3, 4))))
    machine = make_machine(compute_groups=1)
    best = optimum(costed, machine)
    assert best is not None
    assert len(list(alternatives(Problem(costed, machine), best, Limits()))) == 5  # 3! with the one known


def test_a_chain_has_one_schedule() -> None:
    costed = graph((instruction(0, ("alu", 4)), instruction(1, ("alu", 3))), (edge(0, 1, 4),))
    machine = make_machine(compute_groups=1)
    best = optimum(costed, machine)
    assert best is not None
    assert list(alternatives(Problem(costed, machine), best, Limits())) == []
