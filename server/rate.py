"""How often one client may ask: a bucket of tokens for each, refilled steadily."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

MOST_CLIENTS = 10_000  # whose buckets are remembered; one that was forgotten starts full again


class RateLimit:
    """`rate` requests a second for each client, with bursts of `burst`. A rate of 0 limits nobody."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = max(1.0, burst)
        self.clock = clock
        self.lock = threading.Lock()
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was so

    def wait(self, client: str) -> float:
        """Take one from the client's bucket; 0.0, or the seconds until there is one to take."""
        if self.rate <= 0:
            return 0.0
        with self.lock:
            now = self.clock()
            left, then = self.buckets.pop(client, (self.burst, now))
            left = min(self.burst, left + (now - then) * self.rate)
            enough = left >= 1
            self.buckets[client] = (left - 1 if enough else left, now)
            if len(self.buckets) > MOST_CLIENTS:
                self.buckets.popitem(last=False)
            return 0.0 if enough else (1 - left) / self.rate
