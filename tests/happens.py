"""What happens before what in a run of a warp program: every pair of conflicting accesses, and who comes first.

Written apart from the abstract machine, which keeps the last accesses of a place and what whole warp groups know. Here
every warp group is two threads (the elected one, and one for any other), each with a clock of its own; every access of
a run is kept, and each is compared with each that it may collide with, through whatever proxies the two go. Only the
order of statements, the slots and the phases are taken from the run.

Two runs whose threads do the same to the same places, in which every two accesses that collide are ordered, and in
the same way, cannot be told apart: whatever the interleaving, each access finds what the same other one left. So a
wait that may be missing without changing `Order` tells nobody anything that is not known anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tests.happens_steps import Area, Step, step_of
from twill.codegen.verify.abstract.actor import Actor
from twill.codegen.verify.abstract_machine import Trial, run
from twill.codegen.warp.layout import Accumulator, Blocked
from twill.codegen.warp.program import (
    Acquire,
    Arrive,
    BulkCommit,
    BulkWait,
    Commit,
    Consumed,
    Expect,
    Get,
    LoadShared,
    Multiply,
    ProxyFence,
    Publish,
    PublishInstance,
    ReceiveInstance,
    Reduce,
    Stmt,
    StoreShared,
    Sync,
    TmaLoad,
    TmaStore,
    WaitGroups,
    WarpProgram,
)

Thread = tuple[int, str]  # warp group, "elected" or another
Clock = dict[Any, int]
Phase = tuple[str, int, int, int]  # "full" or "empty", ring, slot, number; or "named", barrier, 0, number


@dataclass(frozen=True)
class Access:
    """One thread's access. over: what a clock has to show, and how much of it, to come after. began: what the thread
    knew. mapping: how the threads of its group share the area, if they do. moment: the statement's turn in the run."""

    name: tuple[Any, ...]
    thread: Thread
    area: Area
    proxy: str
    write: bool
    over: tuple[Any, int]
    began: Clock
    mapping: Any
    moment: int


Order = tuple[frozenset[Any], bool]
"""The pairs (earlier, later) that collide; whether every pair is ordered and every wait and arrival is in its phase."""


def order(program: WarpProgram, trial: Trial) -> Order:
    """What happens before what in a run of a launch on one CTA. A program that cannot go on is out of order."""
    steps: dict[int, list[Step]] = {group.id: [] for group in program.groups}

    def watch(actor: Actor, stmt: Stmt) -> None:
        steps[actor.group.id].append(step_of(actor, stmt))

    run(program, trial.launch, watch=watch)
    return History(program, steps).order()


@dataclass
class Wait:
    """A wait that was passed: of which phase, and by whom when."""

    phase: Phase
    thread: Thread
    time: int
    knew: Clock


@dataclass
class History:
    """Clocks of all threads, phase by phase."""

    program: WarpProgram
    steps: dict[int, list[Step]]
    clocks: dict[Thread, Clock] = field(default_factory=dict)
    arrived: dict[Phase, int] = field(default_factory=dict)
    published: dict[Phase, Clock] = field(default_factory=dict)  # what arrivals of a phase know
    done: dict[Phase, Clock] = field(default_factory=dict)  # of complete phases
    loads: dict[Phase, int] = field(default_factory=dict)  # still to be issued
    arrivals: list[tuple[Phase, Thread, Clock, Clock]] = field(default_factory=list)  # with what was known, and learnt
    learnt: dict[Thread, Clock] = field(default_factory=dict)  # from others: what all threads that one stands for did
    waits: list[Wait] = field(default_factory=list)
    named: dict[tuple[int, int], int] = field(default_factory=dict)  # (group, barrier) -> phases it arrived in
    groups: dict[int, tuple[int, int]] = field(default_factory=dict)  # wgmma groups committed, bulk groups committed
    places: dict[tuple[int, int], list[Access]] = field(default_factory=dict)
    counts: dict[Any, int] = field(default_factory=dict)

    def order(self) -> Order:
        """Goes through the run, each warp group as far as it can go, until all are at their ends."""
        for member in self.program.groups:
            for name in ("elected",) if member.issuer else ("elected", "other"):
                self.clocks[member.id, name], self.learnt[member.id, name] = {}, {}
        for step in (step for steps in self.steps.values() for step in steps if isinstance(step.stmt, TmaLoad)):
            phase: Phase = ("full", step.ring, step.slot, step.number)
            self.loads[phase] = self.loads.get(phase, 0) + 1
        at = dict.fromkeys(self.steps, 0)
        moved = True
        while moved:
            moved = False
            for group, steps in self.steps.items():
                while at[group] < len(steps) and self.takes(steps[at[group]]):
                    at[group] += 1
                    moved = True
        ended = all(at[group] == len(steps) for group, steps in self.steps.items())
        return self.pairs(ended and self.in_phase())

    # ------------------------------------------------------------ one step
    def threads(self, group: int) -> list[Thread]:
        """Those that stand for a group."""
        return [thread for thread in self.clocks if thread[0] == group]

    def takes(self, step: Step) -> bool:
        """Executes a step; False if it has to wait."""
        stmt, threads = step.stmt, self.threads(step.group)
        elected = threads[:1]
        match stmt:
            case Get():
                return self.waited(("full", step.ring, step.slot, step.number), threads)
            case Acquire():
                by_all = self.program.arefs[step.ring].transport == "registers"
                phase: Phase = ("empty", step.ring, step.slot, step.number - 1)
                return not step.number or self.waited(phase, threads if by_all else elected)
            case Sync(barrier):
                return self.synced(step.group, barrier)
        for thread in threads:
            self.tick(thread)
        match stmt:
            case Arrive(barrier):
                self.arrive_named(step.group, barrier)
            case Expect():
                self.arrive(("full", step.ring, step.slot, step.number), 1, elected)
            case Publish() | Consumed():
                count = 1 if len(threads) == 1 else self.program.groups[step.group].threads // 32
                side = "full" if isinstance(stmt, Publish) else "empty"
                self.arrive((side, step.ring, step.slot, step.number), count, threads)
            case TmaLoad():
                phase = ("full", step.ring, step.slot, step.number)
                self.access(step, elected, "tma", (("landed", step.ring, step.slot), step.number + 1))
                self.published.setdefault(phase, {})
                join(self.published[phase], self.clocks[elected[0]])
                self.loads[phase] -= 1
                self.complete(phase)
            case TmaStore():
                self.access(step, elected, "tma", (("read", step.group), self.committed(step.group)[1] + 1))
            case BulkCommit():
                multiplies, bulk = self.committed(step.group)
                self.groups[step.group] = multiplies, bulk + 1
            case BulkWait(pending):
                self.clocks[elected[0]]["read", step.group] = max(0, self.committed(step.group)[1] - pending)
            case Multiply():
                for thread in threads:
                    self.access(step, [thread], "wgmma", (("wgmma", thread), self.committed(step.group)[0] + 1))
            case Commit():
                multiplies, bulk = self.committed(step.group)
                self.groups[step.group] = multiplies + 1, bulk
            case WaitGroups(pending):
                for thread in threads:
                    self.clocks[thread]["wgmma", thread] = max(0, self.committed(step.group)[0] - pending)
            case ProxyFence():
                for thread in threads:
                    self.clocks[thread]["fenced", thread] = self.clocks[thread][thread]
            case Reduce() if step.areas:
                self.exchange(step, threads)
            case LoadShared() | StoreShared() | ReceiveInstance() | PublishInstance():
                self.access(step, threads, "generic", None)
        return True

    def tick(self, thread: Thread) -> None:
        """A thread goes on by one statement."""
        self.clocks[thread][thread] = self.clocks[thread].get(thread, 0) + 1

    def committed(self, group: int) -> tuple[int, int]:
        """wgmma groups and bulk groups so far."""
        return self.groups.get(group, (0, 0))

    # ------------------------------------------------------------ waits and arrivals
    def waited(self, phase: Phase, threads: list[Thread]) -> bool:
        """Threads wait for the end of a phase."""
        if phase not in self.done:
            return False
        for thread in threads:
            self.tick(thread)
            clock = self.clocks[thread]
            self.waits.append(Wait(phase, thread, clock[thread], dict(clock)))
            join(clock, self.done[phase])
            join(self.learnt[thread], self.done[phase])
        return True

    def arrive(self, phase: Phase, count: int, threads: Iterable[Thread]) -> None:
        """Threads arrive on a barrier."""
        listed = self.published.setdefault(phase, {})
        for thread in threads:
            join(listed, self.clocks[thread])
            self.arrivals.append((phase, thread, dict(self.clocks[thread]), dict(self.learnt[thread])))
        self.arrived[phase] = self.arrived.get(phase, 0) + count
        self.complete(phase)

    def complete(self, phase: Phase) -> None:
        """The phase ends if all have arrived and all data have been sent."""
        side, ring, slot, number = phase
        aref = self.program.arefs[ring]
        wanted = aref.full_count if side == "full" else aref.empty_count
        if self.arrived.get(phase, 0) == wanted and not (side == "full" and self.loads.get(phase, 0)):
            self.done[phase] = {**self.published[phase], phase: 1}
            if side == "full":
                self.done[phase]["landed", ring, slot] = number + 1

    def arrive_named(self, group: int, barrier: int) -> Phase:
        """A group arrives on a named barrier."""
        number = self.named.get((group, barrier), 0)
        self.named[group, barrier] = number + 1
        phase: Phase = ("named", barrier, 0, number)
        listed = self.published.setdefault(phase, {})
        for thread in self.threads(group):
            join(listed, self.clocks[thread])
            self.arrivals.append((phase, thread, dict(self.clocks[thread]), dict(self.learnt[thread])))
        self.arrived[phase] = self.arrived.get(phase, 0) + 1
        if self.arrived[phase] == len(self.program.barriers[barrier].groups):
            self.done[phase] = {**listed, phase: 1}
        return phase

    def synced(self, group: int, barrier: int) -> bool:
        """A group arrives and waits: it arrives when it comes here first."""
        key = ("syncing", group)
        if key not in self.counts:
            for thread in self.threads(group):
                self.tick(thread)
            self.counts[key] = self.arrive_named(group, barrier)[3]
        phase: Phase = ("named", barrier, 0, self.counts[key])
        if phase not in self.done:
            return False
        del self.counts[key]
        for thread in self.threads(group):
            join(self.clocks[thread], self.done[phase])
            join(self.learnt[thread], self.done[phase])
        return True

    def in_phase(self) -> bool:
        """Whether every arrival knows that the phase before is over, every wait too, and no phase ends before the
        waits for the one before are over: a barrier shows no more than whether its phase is odd."""
        came: dict[Phase, Clock] = {}
        for phase, thread, knew, _ in self.arrivals:
            came.setdefault(phase, {})[thread] = knew.get(thread, 0)
        for phase, thread, knew, learnt in self.arrivals:
            last = (*phase[:3], phase[3] - 1)
            if phase[3] and not knew.get(last) and not self.all_came(last, came.get(last, {}), thread, learnt):
                return False
        for wait in self.waits:
            side, ring, slot, number = wait.phase
            if number and not wait.knew.get((side, ring, slot, number - 1)):
                return False
            after = self.done.get((side, ring, slot, number + 1))
            if after is not None and after.get(wait.thread, 0) < wait.time:
                return False
        return True

    def all_came(self, phase: Phase, came: Clock, thread: Thread, learnt: Clock) -> bool:
        """Whether a thread knows of all arrivals of a phase that nothing else ends, those of the threads beside it in
        its group included: what it learnt from others it learnt of all that one stands for."""
        side, ring, _, _ = phase
        if side == "full" and self.program.arefs[ring].transport == "tma":
            return False  # data have to land
        return all(learnt.get(one, 0) >= time or (one == thread and one[1] == "elected") for one, time in came.items())

    # ------------------------------------------------------------ accesses
    def access(self, step: Step, threads: list[Thread], proxy: str, over: tuple[Any, int] | None) -> None:
        """Threads access what a statement names. over: how others know that it is over (None: by their clocks)."""
        self.counts["moment"] = self.counts.get("moment", 0) + 1
        for thread in threads:
            clock = dict(self.clocks[thread])
            for buffer, slot, area, name in step.areas:
                write = name == "target"
                self.note(thread, (buffer, slot), area, proxy, write, over or (thread, clock[thread]), clock, step)

    def note(
        self, thread: Thread, place: tuple[int, int], area: Area, proxy: str, write: bool, over: tuple[Any, int],
        began: Clock, step: Step,
    ) -> None:  # fmt: skip
        """Keep one access."""
        key = (thread, place)
        self.counts[key] = self.counts.get(key, 0) + 1
        name = (thread, self.counts[key], proxy, write, area)
        mapping = self.mapping(step) if proxy == "generic" else None
        self.places.setdefault(place, []).append(
            Access(name, thread, area, proxy, write, over, began, mapping, self.counts["moment"])
        )

    def mapping(self, step: Step) -> Any:
        """How a group's threads share the tile of a LoadShared or StoreShared; None if several hold an element."""
        match step.stmt:
            case LoadShared(source, fragment, transposed):
                more: Any = (source.rows, source.columns, transposed, None)
            case StoreShared(fragment, target, transposed, columns):
                more = (target.rows, target.columns, transposed, columns)
            case Reduce(scratch=scratch) if step.areas[0][3] == "target":
                return step.group, scratch  # each thread writes its own part
            case _:
                return None
        layout = self.program.groups[step.group].fragment(fragment).layout
        return (step.group, layout, more) if isinstance(layout, Accumulator | Blocked) else None

    def exchange(self, step: Step, threads: list[Thread]) -> None:
        """A reduction through scratch memory: all write, sync, read."""
        for name in ("target", "source"):
            moved = [(buffer, slot, area, name) for buffer, slot, area, _ in step.areas]
            self.access(Step(step.group, step.stmt, areas=tuple(moved)), threads, "generic", None)
            known: Clock = {}
            for thread in threads if name == "target" else ():
                join(known, self.clocks[thread])
            for thread in threads:
                join(self.clocks[thread], known)
                self.tick(thread)

    def pairs(self, right: bool) -> Order:
        """All that collide."""
        found = set()
        for place, accesses in self.places.items():
            for one, other in combinations(accesses, 2):
                if not (one.write or other.write) or not collide(one, other):
                    continue
                if before(one, other):
                    found.add((place, one.name, other.name))
                elif before(other, one):
                    found.add((place, other.name, one.name))
                else:
                    right = False
        return frozenset({*found, *self.met()}), right

    def met(self) -> Iterator[tuple[Phase, int]]:
        """Which groups arrived in which phase of what several of them share."""
        for phase, thread, _, _ in self.arrivals:
            if phase[0] != "named" or len(self.program.barriers[phase[1]].groups) > 1:
                yield phase, thread[0]


def join(clock: Clock, other: Clock) -> None:
    """The clock also shows what the other does."""
    for key, count in other.items():
        if clock.get(key, 0) < count:
            clock[key] = count


def collide(one: Access, other: Access) -> bool:
    """Whether the order of two accesses of one place, one of them a write, matters. Threads of a group that have the
    same element of a fragment have the same number: it does not matter which of them one statement writes last."""
    alike = one.mapping is not None and one.mapping == other.mapping
    once = one.moment == other.moment and one.thread[0] == other.thread[0]
    if one.proxy == other.proxy == "generic" and (one.thread == other.thread or alike or once):
        return False
    a, b = one.area, other.area
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def before(one: Access, other: Access) -> bool:
    """Whether the first is over when the second begins, and what it wrote is there for the second's proxy."""
    if other.began.get(one.over[0], 0) < one.over[1]:
        return False
    across = one.write and one.proxy == "generic" != other.proxy
    return not across or other.began.get(("fenced", one.thread), 0) >= one.over[1]
