"""mbarriers in shared memory and named barriers: phases, counts, and what who waits learns from who arrived."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.order import Clocks, Snapshot

NAMED = 16  # barriers of a CTA
LARGEST = (1 << 20) - 1  # count of an mbarrier


@dataclass
class MBarrier:
    """PTX ISA, "mbarrier". count: expected arrivals of a phase. pending: that are missing in this one. bytes: that are
    missing. phase: completed ones. agent: among the clocks, for copies that land on it; epoch n + 1 of it is over with
    phase n. foreign: the last phase, counted from 1, in which something asynchronous of another CTA arrived; 0: none.
    seen: the last one that somebody has seen completed."""

    address: int
    count: int
    agent: int
    maker: int
    epoch: int
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    foreign: int = 0
    seen: int = 0
    arriving: Snapshot | None = None
    done: Snapshot | None = None

    def arrive(self, count: int, snapshot: Snapshot) -> None:
        """So many arrivals of one who knows `snapshot`. Stopped: more than the phase has."""
        if count > self.pending:
            raise Stopped("mbarrier", f"{self}: arrival {self.count - self.pending + count} of a phase of {self.count}")
        self.pending -= count
        self.arriving = snapshot.join(self.arriving)
        self._complete()

    def expect(self, size: int) -> None:
        """The phase also waits for bytes."""
        self.bytes += size
        if abs(self.bytes) > LARGEST:
            raise Stopped("mbarrier", f"{self}: {self.bytes} bytes are expected, beyond {LARGEST}")

    def land(self, size: int, clocks: Clocks) -> None:
        """Bytes of a copy have landed."""
        known = clocks.known[0] * 0
        known[self.agent] = self.phase + 1
        self.arriving = Snapshot(known, clocks.visible[0] * 0).join(self.arriving)
        self.bytes -= size
        self._complete()

    def arrives_from_afar(self) -> None:
        """Something asynchronous that another CTA began is about to arrive."""
        self.foreign = self.phase + 1

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity is over: the one before the current has it."""
        return (self.phase & 1) != parity

    def _complete(self) -> None:
        if self.pending or self.bytes:
            return
        self.done = self.arriving if self.done is None else self.done.join(self.arriving)
        self.arriving = None
        self.phase += 1
        self.pending = self.count

    def __str__(self) -> str:
        return f"mbarrier {self.address:#x}"

    def state(self) -> str:
        """What the phase misses, for people."""
        return f"{self} in phase {self.phase} misses {self.pending} of {self.count} arrivals and {self.bytes} bytes"


@dataclass
class CtaBarrier:
    """`barrier.cta`. expected: threads of this phase, 0 before anybody came. came: warps of this phase, with the epoch
    that each ended with its arrival; before: those of the phase before."""

    expected: int = 0
    arrived: int = 0
    phase: int = 0
    arriving: Snapshot | None = None
    waiting: list[int] = field(default_factory=list)
    came: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)


@dataclass
class ClusterBarrier:
    """`barrier.cluster`. warps: that have not ended. tickets: of each warp the phase that it arrived in last."""

    warps: set[int]
    phase: int = 0
    arrived: set[int] = field(default_factory=set)
    tickets: dict[int, int] = field(default_factory=dict)
    arriving: Snapshot | None = None
    done: Snapshot | None = None

    def arrive(self, warp: int, snapshot: Snapshot) -> None:
        """Stopped: twice in one phase."""
        if warp in self.arrived:
            raise Stopped("barrier", f"warp {warp} arrives twice in a phase of the cluster's barrier")
        self.arrived.add(warp)
        self.tickets[warp] = self.phase
        self.arriving = snapshot.join(self.arriving)
        self._complete()

    def leave(self, warp: int) -> None:
        """A warp has ended."""
        self.warps.discard(warp)
        self._complete()

    def passed(self, warp: int) -> bool:
        """Whether all have arrived since the warp did. Stopped: it did not."""
        if warp not in self.tickets:
            raise Stopped("barrier", f"warp {warp} waits at the cluster's barrier and has not arrived")
        return self.phase > self.tickets[warp]

    def _complete(self) -> None:
        if self.arrived and self.arrived >= self.warps:
            self.done, self.arriving = self.arriving, None
            self.arrived = set()
            self.phase += 1


@dataclass
class Barriers:
    """Those of one CTA."""

    clocks: Clocks
    named: list[CtaBarrier] = field(default_factory=lambda: [CtaBarrier() for _ in range(NAMED)])
    objects: dict[int, MBarrier] = field(default_factory=dict)
    invalidated: list[MBarrier] = field(default_factory=list)

    def init(self, address: int, count: int, warp: int) -> None:
        """`mbarrier.init`. Stopped: alignment, a count out of range."""
        if address % 8:
            raise Stopped("alignment", f"an mbarrier at {address:#x}, no multiple of 8")
        if not 1 <= count <= LARGEST:
            raise Stopped("mbarrier", f"an mbarrier of {count} arrivals, not 1 to {LARGEST}")
        epoch = int(self.clocks.known[warp, warp])
        self.objects[address] = MBarrier(address, count, self.clocks.agent(), warp, epoch, pending=count)

    def invalidate(self, address: int) -> None:
        """`mbarrier.inval`."""
        barrier = self.objects.pop(address, None)
        if barrier is None:
            raise Stopped("mbarrier", f"address {address:#x} is no mbarrier")
        self.invalidated.append(barrier)

    def at(self, address: int, warp: int) -> MBarrier:
        """The mbarrier there, used by a warp. Stopped: there is none that the warp can know of."""
        barrier = self.objects.get(address)
        if barrier is None:
            raise Stopped("mbarrier", f"address {address:#x} is no initialized mbarrier")
        if self.clocks.known[warp, barrier.maker] < barrier.epoch:
            raise Stopped("order", f"{barrier} is used by warp {warp}, which nothing orders behind its initialization")
        return barrier

    def sync(self, number: int, threads: int, whole: int, warps: list[int], count: int, waits: bool) -> CtaBarrier:
        """Warps arrive at a named barrier, of `threads` threads (0: all `whole` of the CTA), `count` of them now.

        Stopped: contradictions.
        """
        if not 0 <= number < NAMED:
            raise Stopped("barrier", f"barrier {number}, not 0 to {NAMED - 1}")
        barrier = self.named[number]
        expected = threads or whole
        if expected % 32:
            raise Stopped("barrier", f"barrier {number} counts {expected} threads, no multiple of 32")
        if barrier.expected and barrier.expected != expected:
            raise Stopped(
                "barrier", f"barrier {number} counts {expected} threads here and {barrier.expected} elsewhere"
            )
        if barrier.arrived + count > expected:
            raise Stopped("barrier", f"{barrier.arrived + count} threads arrive at barrier {number} of {expected}")
        for warp in warps:
            if warp in barrier.came:
                raise Stopped("barrier", f"warp {warp} arrives twice in a phase of barrier {number}")
            self._check_over(number, warp)
            barrier.came[warp] = int(self.clocks.known[warp, warp])
            barrier.arriving = self.clocks.release(warp).join(barrier.arriving)
        if waits:
            barrier.waiting += warps
        barrier.expected, barrier.arrived = expected, barrier.arrived + count
        if barrier.arrived == expected:
            for warp in barrier.waiting:
                self.clocks.acquire(warp, barrier.arriving)
            self.named[number] = CtaBarrier(phase=barrier.phase + 1, before=barrier.came)
            barrier.phase += 1
        return barrier

    def _check_over(self, number: int, warp: int) -> None:
        """Stopped: nothing tells the warp that the phase before is over, so that another time it may arrive in that."""
        for other, epoch in self.named[number].before.items():
            if other != warp and self.clocks.known[warp, other] < epoch:
                known = f"warp {warp} arrives at barrier {number} and does not know that warp {other} has left it"
                raise Stopped("barrier", known)


def unfinished(barrier: Any, phase: int) -> bool:
    """Whether a phase of a named barrier goes on."""
    return bool(barrier.phase == phase)
