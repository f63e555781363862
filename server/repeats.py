"""Submissions that were answered with a solved job, so that the same bytes again cost neither process nor database.

A body says everything that its job's key depends on, and a solved schedule never changes. As with `Answers`, the store
is asked again after a while: an operator may have deleted the schedule at another front end.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from twill.store.api import Job

from .answers import FRESH

MOST = 4096  # bodies; their digests and jobs take a few megabytes


class Repeats:
    """The solved jobs of the bodies that were submitted last. Thread-safe."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.clock = clock
        self.lock = threading.Lock()
        self.known: OrderedDict[bytes, tuple[Job, float]] = OrderedDict()

    def find(self, body: bytes) -> Job | None:
        """The job that answered the same body, if it is remembered."""
        with self.lock:
            job, read = self.known.get(digest(body), (None, 0.0))
            return None if self.clock() - read > FRESH else job

    def remember(self, body: bytes, job: Job) -> None:
        """A body was answered with a job that is done."""
        with self.lock:
            self.known[digest(body)] = (job, self.clock())
            self.known.move_to_end(digest(body))
            while len(self.known) > self.most:
                self.known.popitem(last=False)

    def forget(self, key: str) -> None:
        """The schedule of a key is not there any more."""
        with self.lock:
            for name in [name for name, (job, _) in self.known.items() if job.key == key]:
                del self.known[name]


def digest(body: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(body).digest()
