"""Schedules as they are sent: bytes and their ETag, the ones asked for last kept in memory."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from twill.store.interface import ScheduleStore

FRESH = 300.0  # seconds after which the store is asked again: it notes what is used, and an operator may delete from it
LONGEST_CONDITION = 1000  # characters of an If-None-Match header


@dataclass(frozen=True)
class ScheduleAnswer:
    """An entry's canonical JSON. etag: in quotes, as HTTP wants it. read: when it was."""

    body: bytes
    etag: str
    read: float


def headers_of(answer: ScheduleAnswer, private: bool) -> dict[str, str]:
    """Of an answer to a look-up. What is sent never changes, but an operator may delete it. private: not for shared
    caches."""
    return {"ETag": answer.etag, "Cache-Control": f"{'private' if private else 'public'}, max-age={FRESH:.0f}"}


def matches(header: str, etag: str) -> bool:
    """Whether an If-None-Match header names the ETag."""
    names = [name.strip().removeprefix("W/") for name in header.split(",")]
    return "*" in names or etag in names


class Answers:
    """Entries of a store, which never change; at most `room` bytes of them are remembered."""

    def __init__(self, store: ScheduleStore, room: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.store = store
        self.room = room
        self.clock = clock
        self.taken = 0
        self.lock = threading.Lock()
        self.known: OrderedDict[str, ScheduleAnswer] = OrderedDict()

    def remembered(self, key: str) -> ScheduleAnswer | None:
        """The answer, if it is at hand; never waits."""
        with self.lock:
            found = self.known.get(key)
            if found is None or self.clock() - found.read > FRESH:
                return None
            self.known.move_to_end(key)
            return found

    def read(self, key: str) -> ScheduleAnswer | None:
        """The answer from the store, which checks it; None if there is none."""
        entry = self.store.get(key)
        if entry is None:
            return None
        body = entry.canonical().encode()
        answer = ScheduleAnswer(body, f'"{hashlib.sha256(body).hexdigest()}"', self.clock())
        self.remember(key, answer)
        return answer

    def forget(self, key: str) -> None:
        """Ask the store the next time."""
        with self.lock:
            gone = self.known.pop(key, None)
            self.taken -= len(gone.body) if gone else 0

    def remember(self, key: str, answer: ScheduleAnswer) -> None:
        """Keep an answer at hand, and let go of those that nobody asked for longest."""
        if len(answer.body) > self.room:
            return
        with self.lock:
            old = self.known.pop(key, None)
            self.taken += len(answer.body) - (len(old.body) if old else 0)
            self.known[key] = answer
            while self.taken > self.room:
                _, gone = self.known.popitem(last=False)
                self.taken -= len(gone.body)
