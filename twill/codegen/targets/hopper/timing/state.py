"""What a simulated SM knows of its warps, CTAs and schedulers at a cycle."""

from __future__ import annotations

from dataclasses import dataclass, field

from twill.codegen.targets.hopper.timing.operands import State
from twill.codegen.targets.hopper.timing.program import TimedProgram

NEVER = 1 << 60
WARPS_OF_GROUP = 4  # a warp group's (PTX ISA)

Number = tuple[int, int, int]  # of a CTA in its grid


@dataclass(eq=False)
class Warp:
    """A warp of a CTA. at: the instruction that is next. ready: the cycle from which it may issue. free: of each
    scoreboard, the cycle from which it is free. copies: cycles at which groups of stores of its have been read.
    groups: wgmma groups that it committed. multiplies: products that it issued. local: words of spilled registers."""

    index: int
    cta: SimulatedCta
    scheduler: Scheduler
    state: State
    at: int = 0
    ready: int = 0
    done: bool = False
    free: list[int] = field(default_factory=lambda: [0] * 6)
    copies: list[int] = field(default_factory=list)
    groups: int = 0
    multiplies: int = 0
    local: dict[int, int | None] = field(default_factory=dict)

    @property
    def group(self) -> int:
        """Its warp group."""
        return self.index // WARPS_OF_GROUP


@dataclass(eq=False)
class SimulatedCta:
    """What the warps of a CTA share. memory: words of shared memory on which control may depend. finished: of each warp
    group, how many committed wgmma groups have ended. issued: products that some but not all of its four warps have
    issued, by warp group and number, with how many have."""

    program: TimedProgram
    number: Number
    warps: list[Warp] = field(default_factory=list)
    mbarriers: dict[int, MbarrierState] = field(default_factory=dict)
    named: dict[int, ThreadBarrier] = field(default_factory=dict)
    memory: dict[int, int | None] = field(default_factory=dict)
    finished: dict[int, int] = field(default_factory=dict)
    issued: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(eq=False)
class Scheduler:
    """A quarter of the SM: its warps, the youngest first, and the cycle from which each of its pipes is free."""

    warps: list[Warp] = field(default_factory=list)
    last: Warp | None = None
    wake: int = 0
    alu: int = 0
    heavy: int = 0
    light: int = 0
    special: int = 0
    uniform: int = 0
    double: int = 0
    memory: int = 0
    dispatch: int = 0  # of what computes


Waiter = tuple[Warp, int, int]  # a warp, the scoreboard that it waits for, the parity of the phase


@dataclass
class MbarrierState:
    """An mbarrier: `count` arrivals end a phase once all bytes that were announced have come. phase: how many ended."""

    count: int
    phase: int = 0
    arrived: int = 0
    bytes: int = 0
    waiters: list[Waiter] = field(default_factory=list)

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity has ended (mbarrier.try_wait.parity)."""
        return self.phase & 1 != parity

    def expect(self, size: int) -> None:
        """So many bytes more will come."""
        self.bytes += size

    def arrive(self) -> list[Waiter]:
        """One arrival; the waiters whose phase ends with it."""
        self.arrived += 1
        return self._ended()

    def receive(self, size: int) -> list[Waiter]:
        """So many bytes have come; the same."""
        self.bytes -= size
        return self._ended()

    def _ended(self) -> list[Waiter]:
        if self.arrived < self.count or self.bytes > 0:
            return []
        self.arrived -= self.count
        self.phase += 1
        woken = [one for one in self.waiters if self.passed(one[2])]
        self.waiters = [one for one in self.waiters if not self.passed(one[2])]
        return woken


@dataclass
class ThreadBarrier:
    """A barrier of threads. waiting: warps, and the cycle from which each may go on."""

    arrived: int = 0
    waiting: list[tuple[Warp, int]] = field(default_factory=list)
