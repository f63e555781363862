"""Compaction shortens I and L, keeps every rule, and finds nothing more to do afterwards."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings

from tests.graphs import edge, graph, instruction
from tests.smt.test_search import document
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.checker.check import check
from twill.schedule.document import Bounds, Certificate, Objective
from twill.smt.assignment import Assignment
from twill.smt.compaction import compacted, structure_of
from twill.smt.outcome import Outcome
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds
from twill.zlp.heuristic import heuristic_schedule
from twill.zlp.slots import slots_of

QUIET = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


def some_schedule(graph: CostedGraph, machine: Machine, slack: int) -> Assignment | None:
    """A valid schedule, found at an I that is `slack` larger than it could be."""
    found = heuristic_schedule(graph, machine, lower_bounds(graph, machine).best + slack)
    if found is None:
        return None
    return Assignment(graph, machine, slots_of(machine), found.ii, found.start, found.group)


def refusals(a: Assignment) -> tuple[object, ...]:
    """What the checker says of an assignment, as a document that claims nothing."""
    objective = Objective(
        ii=a.ii, copies=a.copies, crossing=a.crossing, length=a.length, registers=a.registers, proven=()
    )
    bounds = Bounds(resource=1, recurrence=1, memory=1, issue=1, witness="nothing")
    certificate = Certificate(
        bounds=bounds, steps=(), optimal=False, lower_bound=1, seed=0, resource_limit=0, budget_seconds=None
    )
    outcome = Outcome(a, objective, certificate, infeasible=False)
    return check(document(a.graph, a.machine, outcome), a.machine)


@QUIET
@given(problems(most_instructions=6, most_cycles=6))
def test_a_compacted_schedule_breaks_no_rule_and_is_no_worse(problem: tuple[CostedGraph, Machine]) -> None:
    costed, machine = problem
    loose = some_schedule(costed, machine, slack=5)
    assume(loose is not None)
    assert loose is not None
    tight = compacted(loose, 1)
    assert refusals(tight) == ()
    assert tight.ii <= loose.ii
    assert tight.slot == loose.slot
    assert min(tight.start) == 0
    for slot in loose.used:
        assert tight.budget(slot.id) <= loose.budget(slot.id)
    if tight.ii == loose.ii:
        assert tight.length <= loose.length


@QUIET
@given(problems(most_instructions=5, most_cycles=4))
def test_an_optimal_schedule_cannot_be_compacted(problem: tuple[CostedGraph, Machine]) -> None:
    costed, machine = problem
    best = Search(costed, machine, lower_bounds(costed, machine)).run().assignment
    assume(best is not None)
    assert best is not None
    tight = compacted(best, 1)
    assert (tight.ii, tight.length) == (best.ii, best.length)


def test_idle_cycles_are_squeezed_out_down_to_the_bound_asked_for() -> None:
    costed = graph((instruction(0, ("alu", 4)), instruction(1, ("tensor", 3))), (edge(0, 1, 4),))
    loose = Assignment(costed, make_machine(), slots_of(make_machine()), 20, (3, 11), (0, 0))
    assert (compacted(loose, 1).ii, compacted(loose, 1).start) == (7, (0, 4))
    assert compacted(loose, 9).ii == 9


def test_the_order_of_two_uses_of_a_unit_is_kept() -> None:
    costed = graph((instruction(0, ("alu", 4)), instruction(1, ("alu", 3))))
    machine = make_machine()
    first, second = ((0, 9), (9, 0))
    slots = slots_of(machine)
    assert compacted(Assignment(costed, machine, slots, 20, first, (0, 0)), 1).start == (0, 4)
    assert compacted(Assignment(costed, machine, slots, 20, second, (0, 0)), 1).start == (3, 0)


def test_a_structure_refuses_an_interval_below_its_longest_cycle() -> None:
    costed = graph((instruction(0, ("alu", 4)), instruction(1, ("tensor", 3))), (edge(0, 1, 4), edge(1, 0, 3, 1)))
    machine = make_machine()
    structure = structure_of(Assignment(costed, machine, slots_of(machine), 9, (0, 4), (0, 0)))
    assert structure.earliest(7) == [0, 4]
    assert structure.earliest(6) is None
