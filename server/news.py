"""What a queue tells of its jobs, brought from its thread to whoever waits for one job's news in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class News:
    """Waiters by job. told: whether the queue tells at all; if not, waiters look by themselves."""

    def __init__(self) -> None:
        self.told = False
        self.waiting: dict[str, set[asyncio.Event]] = {}
        self.loop: asyncio.AbstractEventLoop | None = None

    def heard(self, said: str) -> None:
        """What `JobQueue.listen` calls, from any thread: "ID STATE", or "" for news that may have been missed."""
        if self.loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self.loop.call_soon_threadsafe(self.wake, said.partition(" ")[0])

    def wake(self, job: str) -> None:
        """Wake who waits for news of a job ("": of any). Only in the event loop."""
        for name in [job] if job else list(self.waiting):
            for event in self.waiting.get(name, ()):
                event.set()

    @contextmanager
    def about(self, job: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the job has news, from now on. Only in the event loop."""
        self.loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        self.waiting.setdefault(job, set()).add(changed)
        try:
            yield changed
        finally:
            self.waiting[job].discard(changed)
            if not self.waiting[job]:
                del self.waiting[job]
