"""Promises of the answers at hand: the bytes of the store, found without it, in bounded room."""

from __future__ import annotations

import hashlib
from functools import cache

from server.answers import FRESH, Answers
from tests.kernels import H100
from tests.service import MemoryStore, graph
from twill.schedule.document import Schedule
from twill.solve.pipeline import solve


@cache
def schedule() -> Schedule:
    return solve(graph(), H100)


def filled(*keys: str) -> MemoryStore:
    """A store with the same schedule under several keys."""
    store = MemoryStore()
    entry = store.put(schedule())
    store.entries = {key: entry.model_copy(update={"key": key}) for key in keys}
    return store


def test_an_answer_is_the_entry_and_its_etag_the_hash_of_its_bytes() -> None:
    store = filled("a")
    found = Answers(store, 10**6).read("a")
    assert found is not None and found.body.decode() == store.entries["a"].canonical()
    assert found.etag == f'"{hashlib.sha256(found.body).hexdigest()}"'


def test_what_was_read_once_is_at_hand_and_a_miss_is_not() -> None:
    store = filled("a")
    answers = Answers(store, 10**6)
    assert answers.remembered("a") is None and answers.read("b") is None
    answers.read("a")
    store.entries.clear()
    assert answers.remembered("a") is not None and answers.remembered("b") is None


def test_room_is_bounded_and_goes_to_what_was_asked_for_last() -> None:
    store = filled("a", "b", "c")
    size = len(store.entries["a"].canonical())
    answers = Answers(store, int(2.5 * size))
    answers.read("a"), answers.read("b")
    answers.remembered("a")
    answers.read("c")
    assert list(answers.known) == ["a", "c"] and answers.taken <= answers.room
    answers.read("c")
    assert answers.taken == sum(len(one.body) for one in answers.known.values())


def test_an_answer_larger_than_the_room_is_sent_and_not_kept() -> None:
    answers = Answers(filled("a"), 10)
    assert answers.read("a") is not None
    assert answers.remembered("a") is None


def test_after_a_while_the_store_is_asked_again() -> None:
    now = [0.0]
    store = filled("a")
    answers = Answers(store, 10**6, lambda: now[0])
    answers.read("a")
    now[0] += FRESH
    assert answers.remembered("a") is not None
    now[0] += 1
    assert answers.remembered("a") is None
    store.delete("a")
    assert answers.read("a") is None
