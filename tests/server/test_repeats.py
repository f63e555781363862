"""Promises of submissions that come again: the same bytes, a job that is done, for a while, in bounded room."""

from __future__ import annotations

from server.answers import FRESH
from server.repeats import Repeats
from twill.store.api import Job


def job(key: str) -> Job:
    return Job(id=key * 32, key=key * 64, state="done", kernel="k", spec="s", machine="h100", created="2026-11-24")


def test_the_same_bytes_have_the_job_and_others_have_none() -> None:
    repeats = Repeats()
    repeats.remember(b"one", job("a"))
    assert repeats.find(b"one") == job("a") and repeats.find(b"one ") is None


def test_after_a_while_the_store_is_asked_again() -> None:
    now = 0.0
    repeats = Repeats(clock=lambda: now)
    repeats.remember(b"one", job("a"))
    now = FRESH
    assert repeats.find(b"one") is not None
    now = FRESH + 1
    assert repeats.find(b"one") is None


def test_what_was_submitted_longest_ago_makes_room() -> None:
    repeats = Repeats(most=2)
    for body in (b"one", b"two", b"one", b"three"):
        repeats.remember(body, job("a"))
    assert [repeats.find(body) is not None for body in (b"one", b"two", b"three")] == [True, False, True]


def test_a_key_whose_schedule_is_gone_is_forgotten_with_all_its_bodies() -> None:
    repeats = Repeats()
    for body, key in ((b"one", "a"), (b"two", "a"), (b"three", "b")):
        repeats.remember(body, job(key))
    repeats.forget("a" * 64)
    assert [repeats.find(body) is not None for body in (b"one", b"two", b"three")] == [False, False, True]
