"""Program instances that wait for one another, one of them running at a time.

What an atomic operation gives depends on the order of program instances, and every order is right. Those that a check
compares have the same: each CTA goes on until it waits for memory to change, or ends, and then the next one does. A CTA
waits where a loop goes on behind atomic operations, and memory is as it was when its last turn began. `preempt`: a CTA
gives way behind every operation `elected`, too, so that critical sections meet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from twill.tile.interpret.arrays import np
from twill.tile.scalar_region import Endless

POLLS = 64  # rounds in which nobody changes anything, behind which nobody ever will


@dataclass
class MemoryChanges:
    """How often anything in memory has changed."""

    count: int = 0


class Alone:
    """The turns of an instance that no other one runs beside."""

    def begins(self) -> None:
        """An operation `elected` begins."""

    def touched(self) -> None:
        """It touches memory."""

    def again(self) -> None:
        """A loop in it goes on."""

    def elected(self) -> None:
        """An operation `elected` is over."""

    def changed(self) -> None:
        """Something in memory has changed."""


ALONE = Alone()
Work = Callable[[Alone], None]
"""A program instance, run from start to end with the turns that it is given."""


class _Stopped(Exception):  # noqa: N818, it ends a thread
    """Nobody can go on."""


@dataclass
class _Agent(Alone):
    """One CTA, in a thread of its own that runs only while `go` says so."""

    memory: MemoryChanges
    work: Sequence[Work]
    preempt: bool
    stopped: threading.Event
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    back: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    seen: int = -1
    looked: bool = False
    waits: bool = False
    over: bool = False
    error: BaseException | None = None

    def begins(self) -> None:
        self.seen, self.looked = self.memory.count, False

    def touched(self) -> None:
        self.looked = True

    def again(self) -> None:
        if self.looked and self.memory.count == self.seen:
            self.waits = True
            self._give_way()
            self.waits = False
        self.begins()

    def elected(self) -> None:
        if self.preempt:
            self._give_way()

    def changed(self) -> None:
        self.memory.count += 1

    def _give_way(self) -> None:
        self.back.release()
        self.go.acquire()
        if self.stopped.is_set():
            raise _Stopped

    def run(self) -> None:
        """The thread."""
        self.go.acquire()
        try:
            with np.errstate(all="ignore"):
                for one in self.work if not self.stopped.is_set() else ():
                    one(self)
        except _Stopped:
            pass
        except BaseException as error:  # it is raised where the agents were started
            self.error = error
        self.over = True
        self.back.release()

    @property
    def ready(self) -> bool:
        """Whether it can go on."""
        return not self.over and not (self.waits and self.seen == self.memory.count)


def run_together(ctas: Iterable[Sequence[Work]], preempt: bool = False) -> None:
    """All of them to their end. Raises `Endless` where all wait, and what an instance raises."""
    memory, stopped = MemoryChanges(), threading.Event()
    agents = [_Agent(memory, work, preempt, stopped) for work in ctas]
    threads = [threading.Thread(target=agent.run, daemon=True) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        _rounds(agents)
    finally:
        stopped.set()
        for agent in agents:
            if not agent.over:
                agent.go.release()
        for thread in threads:
            thread.join()


def _rounds(agents: Sequence[_Agent]) -> None:
    """One agent after the other, as long as any can go on."""
    polls = 0
    while not all(agent.over for agent in agents):
        moved = False
        for agent in agents:
            ready = agent.ready
            if ready or (polls and not agent.over):
                agent.go.release()
                agent.back.acquire()
                moved = moved or ready or agent.over
                if agent.error is not None:
                    raise agent.error
        polls = 0 if moved else polls + 1
        if polls > POLLS:
            raise Endless
