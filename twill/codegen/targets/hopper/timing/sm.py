"""One SM executing the warps of a CTA: four schedulers, their pipes, and the units that all four share.

Every cycle each scheduler issues one instruction of one of its warps: of the one that issued last if it can, else of
the youngest that can (Huerta et al., "Analyzing Modern NVIDIA GPU cores", arXiv 2503.20481, section 5.1). A warp can if
its last instruction's stall is over, the scoreboards that it waits for are free, and the instruction's unit takes it.
What an instruction does at a later cycle is an event.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from twill.codegen.targets.hopper.timing import units
from twill.codegen.targets.hopper.timing.instruction import NO_SCOREBOARD
from twill.codegen.targets.hopper.timing.operands import start_state
from twill.codegen.targets.hopper.timing.program import Occupied, Timed, TimedProgram
from twill.codegen.targets.hopper.timing.state import NEVER, Number, Scheduler, SimulatedCta, Warp
from twill.machine.description import SimulationFigures

SCHEDULERS = 4  # of an SM
LANES = 32
COMPUTES = frozenset((Occupied.ALU, Occupied.FMA, Occupied.HEAVY, Occupied.SPECIAL, Occupied.DOUBLE))

Trace = Callable[[int, Warp, Timed], None]


class Deadlock(Exception):
    """No warp can go on, and nothing will change that."""


@dataclass
class SharedUnits:
    """Units that all schedulers share: the cycle from which each is free. products: in flight in the tensor cores;
    multiplies_from: when the first of those began that follow one another without a gap; in_turn: warp groups that wait
    for a place among them, the one that gets the next one first."""

    port: int = 0  # of shared memory and shuffles
    memory: float = 0.0  # beyond the SM
    tensor: float = 0.0
    products: int = 0
    multiplies_from: float = 0.0
    in_turn: list[int] = field(default_factory=list)
    fence: int = 0
    loader: float = 0.0  # bulk copies into shared memory
    storer: float = 0.0  # and out of it


@dataclass
class Sm:
    """Runs one CTA to its end. trace: called with cycle, warp and instruction as each is issued."""

    program: TimedProgram
    figures: SimulationFigures
    number: Number = (0, 0, 0)
    trace: Trace | None = None
    now: int = 0
    live: int = 0
    units: SharedUnits = field(default_factory=SharedUnits)
    schedulers: list[Scheduler] = field(default_factory=lambda: [Scheduler() for _ in range(SCHEDULERS)])
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _sequence: int = 0

    def __post_init__(self) -> None:
        cta = SimulatedCta(self.program, self.number)
        for index in range(self.program.threads // LANES):
            scheduler = self.schedulers[index % SCHEDULERS]
            warp = Warp(index, cta, scheduler, start_state())
            cta.warps.append(warp)
            scheduler.warps.insert(0, warp)
        self.live = len(cta.warps)

    # ------------------------------------------------------------ time

    def at(self, cycle: float, action: Callable[[], None]) -> None:
        """An event."""
        self._sequence += 1
        heapq.heappush(self._events, (math.ceil(cycle), self._sequence, action))

    def run(self, limit: int = NEVER) -> int:
        """To the end of the last warp, or to the cycle `limit`; the cycle. Errors: Deadlock."""
        while self.live and self.now <= limit:
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            for scheduler in self.schedulers:
                if scheduler.wake <= self.now:
                    scheduler.wake = self._cycle(scheduler)
            following = min(scheduler.wake for scheduler in self.schedulers)
            if self._events:
                following = min(following, self._events[0][0])
            if self.live and following >= NEVER:
                raise Deadlock(self._where())
            self.now = max(following, self.now + 1)
        return self.now

    def _where(self) -> str:
        live = [warp for scheduler in self.schedulers for warp in scheduler.warps]
        places = sorted(f"warp {warp.index} at {self.program.body[warp.at].text}" for warp in live)
        return f"cycle {self.now}: " + "; ".join(places)

    def wake(self, warp: Warp) -> None:
        """Something changed for it."""
        warp.scheduler.wake = min(warp.scheduler.wake, self.now)

    def wake_all(self) -> None:
        """Something changed for every warp."""
        for scheduler in self.schedulers:
            scheduler.wake = min(scheduler.wake, self.now)

    # ------------------------------------------------------------ choice

    def _cycle(self, scheduler: Scheduler) -> int:
        """Issues one instruction if one can be; the next cycle at which that is worth trying."""
        last, soonest = scheduler.last, NEVER
        if last is not None and not last.done:
            soonest = self._when(scheduler, last)
            if soonest <= self.now:
                self._issue(scheduler, last)
                return self.now + 1
        for warp in scheduler.warps:
            if warp is last:
                continue
            when = self._when(scheduler, warp)
            if when <= self.now:
                scheduler.last = warp
                self._issue(scheduler, warp)
                return self.now + 1
            soonest = min(soonest, when)
        return soonest

    def _when(self, scheduler: Scheduler, warp: Warp) -> int:
        """The cycle from which its next instruction may issue, as far as is known; NEVER: an event decides."""
        when = warp.ready
        if when > self.now:
            return when
        one = self.program.body[warp.at]
        for number in one.waits:
            when = max(when, warp.free[number])
        if when > self.now:
            return when
        kind, figures = one.kind, self.figures
        if kind in COMPUTES:
            when = max(when, scheduler.dispatch)
        if kind is Occupied.ALU:
            return max(when, scheduler.alu)
        if kind is Occupied.FMA:
            return max(when, min(scheduler.heavy, scheduler.light))
        if kind is Occupied.HEAVY:
            return max(when, scheduler.heavy)
        if kind is Occupied.SPECIAL:
            return max(when, scheduler.special - figures.special_queue.whole * figures.special_interval.whole)
        if kind is Occupied.UNIFORM:
            return max(when, scheduler.uniform)
        if kind in (Occupied.SHARED, Occupied.SHUFFLE, Occupied.GLOBAL):
            return max(when, self.units.port - figures.port_queue.whole, scheduler.memory)
        if kind is Occupied.DOUBLE:
            return max(when, scheduler.double)
        if kind is Occupied.MULTIPLY:
            return when if units.takes_product(self, warp) else NEVER
        if kind is Occupied.WAIT_MULTIPLY:
            open_groups = warp.groups - warp.cta.finished.get(warp.group, 0)
            return when if open_groups <= one.count else NEVER
        return when

    # ------------------------------------------------------------ issue

    def _issue(self, scheduler: Scheduler, warp: Warp) -> None:
        now, one = self.now, self.program.body[warp.at]
        if self.trace is not None:
            self.trace(now, warp, one)
        if one.kind in COMPUTES and units.multiplying(self):
            scheduler.dispatch = now + self.figures.tensor_dispatch.whole
        skipped = one.guard is not None and not one.guard(warp.state)
        if one.step is not None:
            one.step(warp.state)
        warp.at += 1
        warp.ready = now + one.stall
        if one.kind is Occupied.BRANCH:
            self._branch(warp, one, skipped)
            release = now + 1
        elif one.kind is Occupied.EXIT:
            if not skipped:
                self._exit(warp)
            release = now + 1
        elif one.kind in units.ACTIONS:
            occupies = not skipped or one.kind in (Occupied.SHARED, Occupied.SHUFFLE)
            release = units.ACTIONS[one.kind](self, warp, one) if occupies else now + 1
        else:
            release = self._pipe(scheduler, one)
        if one.writes != NO_SCOREBOARD:
            warp.free[one.writes] = max(warp.free[one.writes], release)
        if one.reads != NO_SCOREBOARD:
            read = release if one.kind is Occupied.BULK else min(release, now + self.figures.read_latency.whole)
            warp.free[one.reads] = max(warp.free[one.reads], read)

    def _pipe(self, scheduler: Scheduler, one: Timed) -> int:
        """Occupies a pipe of the scheduler; the cycle at which the result is there, where a scoreboard says so."""
        now, figures = self.now, self.figures
        if one.kind is Occupied.FMA:
            if scheduler.light <= now:
                scheduler.light = now + figures.fma_interval.whole
            else:
                scheduler.heavy = now + figures.fma_interval.whole
        elif one.kind is Occupied.HEAVY:
            scheduler.heavy = now + figures.fma_interval.whole
        elif one.kind is Occupied.SPECIAL:
            start = max(now, scheduler.special)
            interval = figures.tensor_special if units.multiplying(self) else figures.special_interval
            scheduler.special = start + interval.whole
            return start + figures.special_latency.whole
        elif one.kind is Occupied.UNIFORM:
            scheduler.uniform = now + figures.uniform_interval.whole
            return now + figures.register_latency.whole
        elif one.kind is Occupied.DOUBLE:
            scheduler.double = now + figures.double_interval.whole
            return now + figures.double_latency.whole
        else:
            scheduler.alu = now + figures.alu_interval.whole
        return now + 1

    def _branch(self, warp: Warp, one: Timed, skipped: bool) -> None:
        if skipped or (one.condition is not None and not one.condition(warp.state)):
            return
        warp.at = one.target
        warp.ready = max(warp.ready, self.now + self.figures.branch.whole)

    def _exit(self, warp: Warp) -> None:
        warp.done, warp.ready = True, NEVER
        warp.scheduler.warps.remove(warp)
        self.live -= 1
