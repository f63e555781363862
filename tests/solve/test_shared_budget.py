"""Promises of `twill.solve.shared_budget`: the solves of an emission have one budget."""

from __future__ import annotations

from twill.schedule.options import SolveOptions
from twill.solve.shared_budget import SharedBudget


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def budgets(whole: float | None, *taken: float) -> list[float | None]:
    clock, found = Clock(), list[float | None]()
    shared = SharedBudget(whole, clock)
    for seconds in taken:
        with shared.solving(SolveOptions(budget=whole, seed=7)) as asked:
            assert asked.seed == 7
            found.append(asked.budget)
            clock.time += seconds
        clock.time += 1000.0  # what is done between solves costs none of it
    return found


def test_a_solve_has_what_those_before_have_left() -> None:
    assert budgets(100.0, 30.0, 50.0, 5.0) == [100.0, 70.0, 20.0]


def test_a_solve_has_a_tenth_at_least() -> None:
    assert budgets(100.0, 120.0, 10.0, 10.0) == [100.0, 10.0, 10.0]


def test_no_budget_is_no_limit() -> None:
    assert budgets(None, 5.0, 5.0) == [None, None]


def test_a_solve_that_fails_has_spent_its_time() -> None:
    clock = Clock()
    shared = SharedBudget(50.0, clock)
    try:
        with shared.solving(SolveOptions(budget=50.0)):
            clock.time += 20.0
            raise ValueError
    except ValueError:
        pass
    with shared.solving(SolveOptions(budget=50.0)) as asked:
        assert asked.budget == 30.0
