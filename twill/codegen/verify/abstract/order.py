"""Who knows of what: vector clocks, and the accesses of every place in shared memory.

A clock says for each kind of event how many of them have certainly happened before. Events of warp group g:

- ("time", g): statements that its threads executed; ("fence", g): the last of them before its last proxy fence
- ("before", g): the last of them before its last fence of tensor memory in front of an arrival
- ("alone", g): waits of its elected thread that no other thread takes part in
- ("mma", g): its groups of MMAs in order of Commit
- ("read", g), ("bulk", g): its bulk store groups that have read shared memory, that are complete
- ("tma", ring, slot): phases of a full barrier, and with them the loads that landed on it
- ("ended", ring, slot, full): phases of an mbarrier that ended with an arrival behind MMAs
- ("begun", rank): 1 if that CTA of the cluster has made its barriers

The threads of a warp group know different things: a thread knows what it did itself; what all the others did, only
after a barrier of theirs. `known` is what every thread of the group knows.

Accesses of tensor memory by different threads need more than a barrier (PTX ISA, "tcgen05.fence"): a fence behind the
first, in front of the arrival, and one behind the wait, in front of the second. An arrival behind MMAs has the first
one. Waits for rings in tensor memory, and arrivals on them, have these fences (`Knowledge.tensor_after`,
`tensor_before`); other statements have none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

Event = tuple[str, *tuple[int, ...]]
Clock = dict[Event, int]


def join(clock: Clock, other: Clock) -> None:
    """The clock also knows what the other knows."""
    known = clock.get
    for event, count in other.items():
        if known(event, 0) < count:
            clock[event] = count


@dataclass
class Knowledge:
    """What a warp group knows. own: each thread of itself. elected: the elected thread, besides. after: what every
    thread knew at its last fence of tensor memory behind a wait.

    single: the group is one thread, which knows all that the group does.
    """

    group: int
    single: bool
    known: Clock = field(default_factory=dict)
    own: Clock = field(default_factory=dict)
    elected: Clock = field(default_factory=dict)
    after: Clock = field(default_factory=dict)

    def tick(self) -> int:
        """The next statement; its time."""
        event: Event = ("time", self.group)
        self.own[event] = self.own.get(event, 0) + 1
        return self.own[event]

    def fence(self) -> None:
        """A proxy fence of every thread."""
        self.own[("fence", self.group)] = self.own.get(("time", self.group), 0)

    def tensor_before(self) -> None:
        """`fence::before_thread_sync` of every thread."""
        self.own[("before", self.group)] = self.own.get(("time", self.group), 0)

    def tensor_after(self) -> None:
        """`fence::after_thread_sync` of every thread."""
        self.after = dict(self.collective())

    def released(self) -> Clock:
        """What a waiter knows after all warps of the group arrived."""
        clock = dict(self.known)
        join(clock, self.own)
        join(clock, self.elected)
        return clock

    def collective(self) -> Clock:
        """What every thread knows of all the others: what makes an access by all of them safe."""
        return self.released() if self.single else self.known

    def of_elected(self) -> Clock:
        """What the elected thread knows of the others and itself."""
        if self.single:
            return self.released()
        clock = dict(self.known)
        join(clock, self.elected)
        return clock

    def learn(self, clock: Clock) -> None:
        """Every thread waited for something that was released with this clock."""
        join(self.known, clock)

    def wait_alone(self, clock: Clock) -> tuple[Event, int]:
        """The elected thread waited for something that was released with this clock; the wait, as an event."""
        event: Event = ("alone", self.group)
        join(self.elected, clock)
        self.elected[event] = self.elected.get(event, 0) + 1
        return event, self.elected[event]


Region = tuple[int, int, int, int]
"""Half-open rows and columns: (row, row end, column, column end)."""


@dataclass(frozen=True)
class SlotAccess:
    """An access of a region of a slot. event, time: how clocks know that it is over. proxy: "generic", "mma", "tma",
    "scales" of copies from shared to tensor memory, or "tensor" of threads that access tensor memory.

    mapping: how threads share the region, where that is known: two generic accesses of one group with the same mapping
    touch the same element with the same thread.
    """

    group: int
    event: Event
    time: int
    proxy: str
    write: bool
    region: Region
    line: int
    what: str
    mapping: Hashable = None

    def over(self, clock: Clock) -> bool:
        """Whether one who knows `clock` comes after it."""
        return clock.get(self.event, 0) >= self.time

    def fenced(self, clock: Clock) -> bool:
        """Whether threads that made it have fenced it against asynchronous proxies, as far as `clock` knows: writes
        that are to be seen there, and reads that must be served before a copy overwrites what they read."""
        return self.proxy != "generic" or clock.get(("fence", self.group), 0) >= self.time

    def before(self, after: Clock) -> bool:
        """Whether an access of tensor memory comes before those of one who knew `after` at its last fence."""
        if self.proxy == "tensor" and after.get(("before", self.group), 0) < self.time:
            return False
        return self.over(after)


def overlap(one: Region, other: Region) -> bool:
    """Whether two regions have an element in common."""
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def covers(one: Region, other: Region) -> bool:
    """Whether the first holds all of the second."""
    return one[0] <= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] >= other[3]


@dataclass
class SlotAccesses:
    """The accesses of one slot of a buffer that a later one may collide with."""

    accesses: list[SlotAccess] = field(default_factory=list)

    def enter(self, access: SlotAccess, clock: Clock, after: Clock | None = None) -> Iterator[tuple[str, SlotAccess]]:
        """Note an access by one who knows `clock`. Yields (rule, earlier access) for each collision. after: of tensor
        memory, what it knew at its last fence."""
        retained: list[SlotAccess] = []
        for earlier in self.accesses:
            if not overlap(earlier.region, access.region):
                retained.append(earlier)
                continue
            if not (earlier.write or access.write):
                same = earlier.event == access.event and earlier.proxy == access.proxy
                if not (same and covers(access.region, earlier.region) and earlier.mapping == access.mapping):
                    retained.append(earlier)
                continue
            if self._same_thread(earlier, access) or self._in_order(earlier, access):
                if not (access.write and covers(access.region, earlier.region)):
                    retained.append(earlier)
                continue
            if not earlier.over(clock):
                yield "order", earlier
            elif access.proxy != "generic" and not earlier.fenced(clock):
                yield "proxy-fence", earlier
            elif after is not None and not earlier.before(after):
                yield "tensor-fence", earlier
            if not (access.write and covers(access.region, earlier.region)):
                retained.append(earlier)
        self.accesses = [*retained, access]

    def collisions(self, access: SlotAccess, clock: Clock) -> Iterator[tuple[str, SlotAccess]]:
        """(rule, earlier access) for each access that one of all the same bytes in another buffer collides with."""
        for earlier in self.accesses:
            if not (earlier.write or access.write):
                continue
            if not earlier.over(clock):
                yield "order", earlier
            elif access.proxy != "generic" and not earlier.fenced(clock):
                yield "proxy-fence", earlier

    @staticmethod
    def _same_thread(earlier: SlotAccess, access: SlotAccess) -> bool:
        if earlier.group == access.group and earlier.proxy == access.proxy == "tensor":
            return True  # a warp has the lanes of its quarter, and waits for its accesses of them
        return (
            earlier.group == access.group
            and earlier.proxy == access.proxy == "generic"
            and earlier.mapping is not None
            and earlier.mapping == access.mapping
        )

    @staticmethod
    def _in_order(earlier: SlotAccess, access: SlotAccess) -> bool:
        """Whether both are done as one thread has issued them: MMAs into tensor memory, and MMAs behind copies to it
        (PTX ISA, "tcgen05 Pipelined Instructions"). A copy behind an MMA is in no such order."""
        return earlier.group == access.group and access.proxy == "mma" and earlier.proxy in ("mma", "scales")

    def pending(self, group: int, clock: Clock) -> Iterator[SlotAccess]:
        """Accesses by a group that one who knows `clock` does not know to be over."""
        return (access for access in self.accesses if access.group == group and not access.over(clock))
