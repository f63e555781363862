"""A circuit breaker: a service that failed several times in a row is left alone for a while.

closed -> (FAILURES in a row) -> open -> (after its pause) one trial -> closed, or open for twice as long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FAILURES = 3
PAUSE = 5.0  # seconds, doubled up to LONGEST by every trial that fails
LONGEST = 300.0


class Breaker:
    """The state of one service, shared by threads. clock: seconds that only go forward."""

    def __init__(
        self, failures: int = FAILURES, pause: float = PAUSE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit = failures
        self.first_pause = pause
        self.clock = clock
        self.lock = threading.Lock()
        self.count = 0
        self.pause = pause
        self.until: float | None = None
        self.trying = False

    def allows(self) -> bool:
        """Whether a request may be made now; if so its outcome must be told."""
        with self.lock:
            if self.until is None:
                return True
            if self.trying or self.clock() < self.until:
                return False
            self.trying = True
            return True

    def left(self) -> float:
        """Seconds until the next trial; 0 if requests may be made."""
        with self.lock:
            return 0.0 if self.until is None else max(0.0, self.until - self.clock())

    def succeeded(self) -> None:
        """A request was answered."""
        with self.lock:
            self.count, self.pause, self.until, self.trying = 0, self.first_pause, None, False

    def failed(self) -> None:
        """A request was not answered, or with nonsense."""
        with self.lock:
            self.count += 1
            if self.trying:
                self.pause = min(2 * self.pause, LONGEST)
            if self.trying or self.count >= self.limit:
                self.until = self.clock() + self.pause
            self.trying = False
