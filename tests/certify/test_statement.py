"""The statement says what docs/model.md says: valid plans satisfy every clause, and what is impossible is refuted."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.certified import Meaning, better, every_key, statement
from tests.exhaustive import optimum
from tests.schedules import attention_schedule
from tests.strategies import problems
from twill.certify.linear import either
from twill.certify.prover import prove
from twill.certify.question import Question
from twill.certify.statement import Statement
from twill.certify.verify import verify
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.machine.file import load_machine

QUIET = settings(max_examples=50, derandomize=True, suppress_health_check=list(HealthCheck))
FEW = settings(QUIET, max_examples=10)


@QUIET
@given(problems(most_instructions=4, most_cycles=5), st.integers(0, 2), st.integers(0, 3))
def test_a_valid_plan_satisfies_every_clause_of_every_rule(
    problem: tuple[CostedGraph, Machine], below: int, above: int
) -> None:
    graph, machine = problem
    best = optimum(graph, machine, most_ii=12)
    if best is None:
        return
    limits = {"length": best.length, "crossing": best.crossing, "registers": best.registers}
    ranged = statement(graph, machine, max(1, best.ii - below), best.ii + above)
    for s in (statement(graph, machine, best.ii, **limits), ranged):
        meaning = Meaning(s, best.plan, best.budgets)
        for key in every_key(s):
            for place, clause in enumerate(s.clauses(key)):
                assert meaning.holds(clause), (key, place, clause)


@FEW
@given(problems(most_instructions=4, most_cycles=4))
def test_nothing_better_than_the_optimum_is_left_and_the_optimum_is(problem: tuple[CostedGraph, Machine]) -> None:
    graph, machine = problem
    best = optimum(graph, machine, most_ii=12)
    if best is None:
        return
    for question in better(best, machine.register_file.granule):
        s = Statement(graph, machine, question)
        proof = prove(s)
        assert proof is not None, question.words()
        assert verify(proof, Statement(graph, machine, question)) > 0
    as_good = {"length": best.length, "crossing": best.crossing, "registers": best.registers}
    assert prove(statement(graph, machine, best.ii, **as_good)) is None
    assert prove(statement(graph, machine, 1, best.ii)) is None


@pytest.mark.parametrize(
    "key",
    [
        ("group order", 0),  # there is no slot before the first
        ("block order", 1, 0),  # the other way round it would say that two blocks start together
        ("block order", 0, 0),
        ("concurrency", 3, 3),
        ("variable latency", 3, 3),
    ],
)
def test_a_name_that_would_say_too_much_says_nothing(key: tuple[str, int]) -> None:
    schedule = attention_schedule()
    s = Statement(schedule.loops[0].graph, load_machine("h100"), Question(ii=2048, ii_to=2048))
    assert s.clauses(key) == ()


@pytest.mark.parametrize("key", [("dependence", -1), ("dependence", 10_000), ("nothing", 1), ("start",)])
def test_a_name_that_no_rule_has_is_refused(key: tuple[str, int]) -> None:
    schedule = attention_schedule()
    s = Statement(schedule.loops[0].graph, load_machine("h100"), Question(ii=2048, ii_to=2048))
    with pytest.raises(KeyError):
        s.clauses(key)


def test_a_clause_with_a_literal_that_always_holds_is_no_clause() -> None:
    assert either(True) == ()
    assert either(False) == ((),)
