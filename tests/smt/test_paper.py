"""The paper's search gives up an I too early, and says no more than it has proven."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings

from tests.smt.test_boolean import rules_broken
from tests.strategies import make_graph, make_machine, problems
from twill.graph.costed import CostedEdge, CostedGraph, Instruction, Use
from twill.machine.description import Machine
from twill.smt.limits import Limits
from twill.smt.paper import paper_search
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds

QUIET = settings(max_examples=15, derandomize=True, suppress_health_check=list(HealthCheck))


def two_steps(crossing: int) -> CostedGraph:
    """Two synchronous steps of 4 cycles on different units: at I < 8 they need two warp groups, and cross."""
    steps = tuple(
        Instruction(
            id=number, name=f"step{number}", op="add", unit=unit, line=number, block=-1,
            uses=(Use(unit=unit, start=0, cycles=4),), latency=4, hold=4, asynchronous=False, variable_latency=False,
            contexts=("compute",),
        )
        for number, unit in enumerate(("alu", "tensor"))
    )  # fmt: skip
    edge = CostedEdge(src=0, dst=1, delay=4, distance=0, crossing=crossing, kind="value")
    return make_graph(make_machine(), steps, (edge,))


def test_an_interval_is_given_up_that_one_more_copy_makes_feasible() -> None:
    """I = 4 needs 4 + 3 + 4 = 11 cycles, 3 copies; without the crossing 8 cycles, 2 copies, would do."""
    graph, machine = two_steps(crossing=3), make_machine()
    paper, compact = paper_search(graph, machine), Search(graph, machine, lower_bounds(graph, machine)).run()
    assert paper.assignment is not None
    assert compact.assignment is not None
    assert (paper.assignment.ii, paper.assignment.copies) == (6, 2)
    assert (compact.assignment.ii, compact.assignment.copies) == (4, 3)
    assert rules_broken(paper.assignment) == rules_broken(compact.assignment) == frozenset()
    assert paper.objective is not None
    assert paper.objective.proven == ()
    assert paper.certificate.lower_bound == 4
    assert not paper.certificate.optimal


def test_an_interval_that_meets_its_bound_is_proven() -> None:
    outcome = paper_search(two_steps(crossing=0), make_machine())
    assert outcome.objective is not None
    assert (outcome.objective.ii, outcome.objective.copies) == (4, 2)
    assert outcome.objective.proven == ("ii", "copies")


def test_the_length_grows_from_that_of_the_resource_only_schedule() -> None:
    steps = paper_search(two_steps(crossing=2), make_machine()).certificate.steps
    asked = [(s.ii, s.question, s.verdict) for s in steps if s.copies]
    assert asked == [
        (4, "length <= 8", "infeasible"),
        (5, "length <= 8", "infeasible"),
        (5, "length <= 9", "infeasible"),
        (5, "length <= 10", "feasible"),
    ]


def test_no_time_gives_no_schedule_and_no_proof() -> None:
    outcome = paper_search(two_steps(crossing=3), make_machine(), Limits(seconds=0))
    assert outcome.assignment is None
    assert not outcome.infeasible


@QUIET
@given(problems(most_instructions=5, most_cycles=5))
def test_schedules_are_valid_and_never_better_than_the_optimum(problem: tuple[CostedGraph, Machine]) -> None:
    graph, machine = problem
    compact = Search(graph, machine, lower_bounds(graph, machine)).run()
    assume(compact.assignment is not None)
    assert compact.objective is not None
    paper = paper_search(graph, machine, Limits(seconds=10))
    assume(paper.objective is not None)
    assert paper.assignment is not None
    assert paper.objective is not None
    assert rules_broken(paper.assignment) == frozenset()
    assert paper.objective.ii >= compact.objective.ii
    assert paper.certificate.lower_bound <= compact.objective.ii
    if "copies" in paper.objective.proven:
        assert paper.objective.copies == compact.objective.copies
