"""The search finds the optimum that an exhaustive search finds, and nothing the checker refuses."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exhaustive import optimum
from tests.kernels import B200, costed_example
from tests.strategies import problems
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph, Region
from twill.machine.description import Machine
from twill.schedule.checker.check import check
from twill.schedule.document import Bounds, Schedule
from twill.smt.outcome import Outcome
from twill.smt.search import Search
from twill.solve.assemble import Solved, assemble
from twill.zlp.bounds import lower_bounds
from twill.zlp.largest import largest_ii

TRIVIAL = Bounds(resource=1, recurrence=1, memory=1, issue=1, witness="nothing")
QUIET = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


def search(graph: CostedGraph, machine: Machine, bounds: Bounds, **options: object) -> Outcome:
    """The outcome of a search that begins with these bounds."""
    return Search(graph, machine, bounds, **options).run()  # type: ignore[arg-type]


def document(graph: CostedGraph, machine: Machine, outcome: Outcome) -> Schedule:
    """The schedule document of a one-loop outcome."""
    region = Region(id=graph.region, kind="loop", line=graph.line, trip=None, nodes=(), edges=())
    kernel = DependenceGraph(kernel="kernel", spec="spec", file="kernel.py", dims=(), regions=(region,))
    solved = Solved(region, graph, outcome)
    return assemble(kernel, machine, solved, [solved], [], (), "key", 0.0)


@QUIET
@given(problems(most_instructions=4, most_cycles=4), st.booleans(), st.booleans())
def test_the_search_agrees_with_exhaustive_search(
    problem: tuple[CostedGraph, Machine], knows_bounds: bool, warm: bool
) -> None:
    graph, machine = problem
    outcome = search(graph, machine, lower_bounds(graph, machine) if knows_bounds else TRIVIAL, warm=warm)
    best = optimum(graph, machine, largest_ii(graph))
    assert outcome.infeasible == (best is None)
    if best is not None:
        assert outcome.objective is not None
        found = outcome.objective
        expected = (best.ii, best.copies, best.crossing, best.length, best.registers)
        assert (found.ii, found.copies, found.crossing, found.length, found.registers) == expected
        assert outcome.certificate.optimal


@QUIET
@given(problems(most_instructions=6, most_cycles=6))
def test_the_checker_accepts_every_schedule_found(problem: tuple[CostedGraph, Machine]) -> None:
    graph, machine = problem
    outcome = search(graph, machine, lower_bounds(graph, machine))
    if outcome.assignment is not None:
        assert check(document(graph, machine, outcome), machine) == ()


def test_where_few_intervals_are_of_interest_one_relaxation_closes_them_all() -> None:
    """Attention on the B200 with six of 16 exponentials by a polynomial, where I = 1,488 is to be beaten or met."""
    g = costed_example("attention", "full", B200, operand_a="tmem", polynomial=6)
    bounds = lower_bounds(g, B200)
    searched = Search(g, B200, bounds, at_most=1488)
    while searched.state == "open" and searched.lower <= 1488:
        searched.advance(1488)
    (closed,) = [step for step in searched.steps if step.verdict == "infeasible"]
    assert (closed.ii, closed.ii_to) == (bounds.best, 1488) and searched.best is None
