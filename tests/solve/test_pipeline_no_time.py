"""A solve that has no time at all still leaves a schedule."""

from __future__ import annotations

import pytest

from tests.kernels import H100, example
from twill.exc import BudgetExhausted
from twill.schedule.checker.check import check
from twill.schedule.document import Schedule
from twill.solve.pipeline import SolveOptions, solve


def test_a_budget_that_ends_before_the_first_schedule_leaves_the_heuristics(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every loop, and in the warp groups that the main loop has."""
    monkeypatch.setattr("twill.smt.warm.heuristic_start", lambda problem, lower, over, at_most=None: None)
    with pytest.raises(BudgetExhausted) as error:
        solve(example("attention", "causal", "masks"), H100, SolveOptions(budget=0.01))
    found = error.value.schedule
    assert isinstance(found, Schedule) and len(found.loops) == 2 and check(found, H100) == ()
    assert not found.certificate.optimal and found.certificate.lower_bound <= found.ii
