"""Promises of the rate limit: bursts, then a steady rate, for each client by itself."""

from __future__ import annotations

import pytest

from server import rate
from server.rate import RateLimit


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_let_through_and_then_one_as_often_as_the_rate() -> None:
    clock = Clock()
    limit = RateLimit(2.0, 3.0, clock)
    assert [limit.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    clock.now += 0.5
    assert limit.wait("a") == 0
    assert limit.wait("a") > 0


def test_clients_do_not_share() -> None:
    limit = RateLimit(1.0, 1.0, Clock())
    assert limit.wait("a") == 0 and limit.wait("a") > 0
    assert limit.wait("b") == 0


def test_a_bucket_holds_no_more_than_a_burst() -> None:
    clock = Clock()
    limit = RateLimit(1.0, 2.0, clock)
    clock.now += 1000
    assert [limit.wait("a") > 0 for _ in range(3)] == [False, False, True]


def test_zero_limits_nobody() -> None:
    limit = RateLimit(0, 0)
    assert not any(limit.wait("a") for _ in range(1000))


def test_the_memory_of_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "MOST_CLIENTS", 3)
    limit = RateLimit(1.0, 1.0, Clock())
    for client in "abcde":
        limit.wait(client)
    assert list(limit.buckets) == ["c", "d", "e"]
