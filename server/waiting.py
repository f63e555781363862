"""Threads in which requests wait for the database or the disk, so many and no more.

A database that is slow holds each for seconds. In a short pool the next ones would wait behind them, for minutes when
there are many; here each is at work at once, or is refused at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from .refusals import RefusedRequest

LATER = 5  # seconds after which a client that was refused may come again

P = ParamSpec("P")
T = TypeVar("T")


class WaitingRoom:
    """At most `most` calls at a time, each in a thread of its own."""

    def __init__(self, most: int, name: str) -> None:
        self.most = most
        self.executor = ThreadPoolExecutor(most, name)
        self.lock = threading.Lock()
        self.busy = 0

    async def run(self, work: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
        """What a call returns; raises RefusedRequest if as many are at work as there may be."""
        with self.lock:
            if self.busy >= self.most:
                words = f"{self.busy} requests wait for the database or the disk already"
                raise RefusedRequest(503, "Busy", words, f"the same again in {LATER} s", {"Retry-After": str(LATER)})
            self.busy += 1
        context = copy_context()  # the thread's log lines and spans belong to the request
        call = self.executor.submit(lambda: context.run(work, *values, **named))
        call.add_done_callback(self.ended)  # not when the client leaves: the thread is at work until then
        return await asyncio.wrap_future(call)

    def ended(self, call: Future[T]) -> None:
        """A thread is free again."""
        with self.lock:
            self.busy -= 1

    def stop(self) -> None:
        """Take no more calls."""
        self.executor.shutdown(wait=False, cancel_futures=True)
