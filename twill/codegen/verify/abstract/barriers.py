"""Barriers: mbarriers with phases and bytes, and named barriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twill.codegen.verify.abstract.order import Clock, Event, join


@dataclass
class Mbarrier:
    """One mbarrier. phase: the one that is not complete yet, counted from 0; its parity is what hardware shows.

    expected, issued: bytes of this phase that were announced, and that loads bring. loads: what they do when they land.
    done[p]: what is known after phase p. waits: (event, time, phase, line) of waits that passed.

    ended: counts phases of which some arrival is made when MMAs are over (late). Of two such arrivals of one thread
    either may come first, so whoever waited for a later one knows that the MMAs are over, not that this phase is.
    """

    name: str
    count: int
    ended: Event
    phase: int = 0
    late: bool = False
    arrived: int = 0
    expected: int = 0
    issued: int = 0
    clock: Clock = field(default_factory=dict)
    loads: list[Callable[[], None]] = field(default_factory=list)
    done: list[Clock] = field(default_factory=list)
    waits: list[tuple[Event, int, int, int]] = field(default_factory=list)

    def arrive(self, arrivals: int, clock: Clock, expected: int = 0) -> None:
        """Arrivals of one warp group, and bytes that the phase shall wait for."""
        self.arrived += arrivals
        self.expected += expected
        join(self.clock, clock)

    def load(self, size: int, land: Callable[[], None]) -> None:
        """A TMA load of `size` bytes is on its way; `land` writes its data to shared memory."""
        self.issued += size
        self.loads.append(land)

    def complete(self, landed: Event | None) -> bool:
        """Complete the phase if nothing is missing; loads land now, as late as they may.

        landed: the event that clocks count phases of this barrier with, if loads land on it.
        """
        if self.arrived < self.count or self.issued < self.expected:
            return False
        for load in self.loads:
            load()
        clock = dict(self.clock)
        if landed is not None:
            clock[landed] = self.phase + 1
        if self.late:
            clock[self.ended] = self.phase + 1
        self.done.append(clock)
        self.arrived -= self.count
        self.phase += 1
        self.expected = self.issued = 0
        self.loads, self.clock, self.late = [], {}, False
        return True

    def passes(self, phase: int) -> bool:
        """Whether a wait for the parity of `phase` returns: hardware knows the parity only."""
        return self.phase % 2 != phase % 2

    def missing(self) -> str:
        """What the phase waits for, for people."""
        parts = []
        if self.arrived < self.count:
            parts.append(f"{self.arrived} of {self.count} arrivals")
        if self.issued < self.expected:
            parts.append(f"{self.issued} of {self.expected} bytes")
        return f"{self.name}, phase {self.phase} has " + (" and ".join(parts) or "all that it needs")


@dataclass
class NamedBarrierState:
    """A named barrier: which groups have arrived in the phase that runs, and what they know."""

    name: str
    groups: tuple[int, ...]
    phase: int = 0
    arrived: list[int] = field(default_factory=list)
    clock: Clock = field(default_factory=dict)
    arrivals: list[tuple[int, int]] = field(default_factory=list)
    done: list[tuple[Clock, list[tuple[int, int]]]] = field(default_factory=list)

    def arrive(self, group: int, time: int, clock: Clock) -> int:
        """One group arrives; the phase that it arrived in. The phase completes with the last of the groups."""
        phase = self.phase
        self.arrived.append(group)
        self.arrivals.append((group, time))
        join(self.clock, clock)
        if len(self.arrived) >= len(self.groups):
            self.done.append((self.clock, self.arrivals))
            self.phase += 1
            self.arrived, self.arrivals, self.clock = [], [], {}
        return phase
