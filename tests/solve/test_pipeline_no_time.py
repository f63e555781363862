"""A solve that has no time at all still leaves a schedule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100, example
from twill.codegen.emission import extract
from twill.exc import BudgetExhausted
from twill.schedule.checker.check import check
from twill.schedule.document import Schedule
from twill.smt.problem import Problem
from twill.solve.pipeline import SolveOptions, solve


def test_a_budget_that_ends_before_the_first_schedule_leaves_the_heuristics(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every loop, and in the warp groups that the main loop has."""
    monkeypatch.setattr("twill.smt.warm.heuristic_start", lambda problem, lower, over, at_most=None: None)
    with pytest.raises(BudgetExhausted) as error:
        solve(example("attention", "causal", "masks"), H100, SolveOptions(budget=0.01))
    found = error.value.schedule
    assert isinstance(found, Schedule) and len(found.loops) == 2 and check(found, H100) == ()
    assert not found.certificate.optimal and found.certificate.lower_bound <= found.ii


@pytest.fixture
def nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the joint search nor its heuristics find a schedule in time."""
    monkeypatch.setattr("twill.smt.warm.heuristic_start", lambda problem, lower, over, at_most=None: None)
    monkeypatch.setattr("twill.smt.search.patient_start", lambda problem, lower, over: None)


@pytest.mark.usefixtures("nothing_found")
def test_where_nothing_is_found_in_time_the_order_of_the_program_is_taken() -> None:
    with pytest.raises(BudgetExhausted, match="one in the order of the program has I = ") as error:
        solve(example("attention", "causal", "masks"), H100, SolveOptions(budget=0.01))
    found = error.value.schedule
    assert isinstance(found, Schedule) and found.strategy == "none" and check(found, H100) == ()
    assert error.value.lower_bound <= found.ii and not found.certificate.optimal


@pytest.mark.usefixtures("nothing_found")
def test_the_order_of_the_program_is_no_answer_to_a_question_about_others() -> None:
    with pytest.raises(BudgetExhausted) as error:
        solve(example("attention", "causal", "masks"), H100, SolveOptions(budget=0.01, ii=4000))
    assert error.value.schedule is None


WIDE = """
@triton.jit
def k(x, y, N: tl.constexpr):
    r, c = tl.arange(0, N), tl.arange(0, 64)
    at = tl.program_id(0) * N * 64 + r[:, None] * 64 + c[None, :]
    rows = tl.load(x + at)
    most = tl.max(rows, axis=1)
    tl.store(y + at, tl.exp(rows - most[:, None]) * rows + tl.sum(rows, axis=0)[None, :])
"""


@pytest.mark.usefixtures("nothing_found")
def test_what_has_no_room_in_the_registers_of_one_warp_group_has_more_threads(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little time there is: nobody waits for a proof that fewer threads are too few, and none is looked for
    with more threads when the time is over."""
    widths = set[int]()

    def nothing(problem: Problem, lower: int, over: Callable[[], bool]) -> None:
        widths.add(problem.graph.cooperation.width)

    monkeypatch.setattr("twill.smt.search.patient_start", nothing)
    graph = extract(f"{kernel_file(WIDE)}::k", sig=["x=*fp32:16", "y=*fp32:16"], const=["N=512"]).graph
    with pytest.raises(BudgetExhausted) as error:
        solve(graph, H100, SolveOptions(budget=0.01))
    found = error.value.schedule
    assert isinstance(found, Schedule) and found.cooperation.width > 1 and check(found, H100) == ()
    assert widths == {1}
    assert solve(graph, H100, SolveOptions(strategy="none")).cooperation.width > 1
