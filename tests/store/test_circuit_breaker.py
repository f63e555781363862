"""Promises of the circuit breaker, with a clock that the test turns."""

from __future__ import annotations

from twill.store.circuit_breaker import FAILURES, LONGEST, PAUSE, Breaker


class Clock:
    """Seconds that go on when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def failing(breaker: Breaker, times: int) -> None:
    """So many requests that fail."""
    for _ in range(times):
        assert breaker.allows()
        breaker.failed()


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    breaker = Breaker(clock=Clock())
    failing(breaker, FAILURES - 1)
    breaker.succeeded()
    failing(breaker, FAILURES - 1)
    assert breaker.allows()
    assert breaker.left() == 0
    breaker.failed()
    assert not breaker.allows()
    assert breaker.left() == PAUSE


def test_one_trial_after_the_pause_decides() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    failing(breaker, FAILURES)
    clock.now += PAUSE
    assert breaker.allows()
    assert not breaker.allows()  # the trial is under way
    breaker.failed()
    assert breaker.left() == 2 * PAUSE
    clock.now += 2 * PAUSE
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.allows()
    assert breaker.allows()


def test_the_pause_has_a_longest() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    failing(breaker, FAILURES)
    for _ in range(20):
        clock.now += LONGEST
        failing(breaker, 1)
    assert breaker.left() == LONGEST
