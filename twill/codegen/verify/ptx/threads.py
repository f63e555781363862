"""Threads of a CTA: gangs of up to four warps whose registers are arrays over lanes, and the ways they have diverged.

A register is an array of one element (all lanes have the same) or of one for each lane of the gang, and is replaced,
never changed. Lanes at the same place run together as a strand; the strand that is furthest behind in the program runs
first, so lanes that went different ways meet again where these ways do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twill.ptx import step
from twill.ptx.arrays import every, some

if TYPE_CHECKING:
    from twill.codegen.verify.ptx.barriers import Barriers, ClusterBarrier
    from twill.codegen.verify.ptx.code import Code
    from twill.codegen.verify.ptx.copies import Copies
    from twill.codegen.verify.ptx.findings import PtxFindings
    from twill.codegen.verify.ptx.made_maps import AcquiredMaps
    from twill.codegen.verify.ptx.memory import GlobalMemory
    from twill.codegen.verify.ptx.order import Clocks, Shadow
    from twill.codegen.verify.ptx.tcgen05_memory import TensorMemory
    from twill.codegen.verify.ptx.tcgen05_multiplies import PendingCommit, WarpMultiplies
    from twill.codegen.verify.ptx.tcgen05_registers import TensorMoves
    from twill.codegen.verify.ptx.wgmma_in_flight import MmasInFlight

Array = Any  # np.ndarray
WARP = step.WARP
Index = tuple[int, int, int]
GANG = 128  # threads of a warp group
MANY = 4096  # blocks that a gang runs before others have their turn


@dataclass
class Wait:
    """Why a strand does not run. ready: whether it may go on. what: for people. polls: it asks again when nothing else
    can happen; at: the state of the world in which it last asked in vain."""

    ready: Callable[[], bool]
    what: str
    barriers: tuple[Any, ...] = ()
    polls: bool = False


@dataclass
class Strand:
    """Lanes at one place. block: of the code. meeting: they wait for other lanes of their warps to come here.

    refused: the progress of the world when a wait of theirs last gave up.
    """

    block: int
    lanes: Array
    wait: Wait | None = None
    meeting: bool = False
    gave_up: bool = False
    refused: tuple[int, int] = (-1, -1)


@dataclass
class World:
    """What CTAs that run together share. progress: counts what happens that others may wait for. visited: blocks of
    code that some lane came to; CTAs that run one after the other share it. multiplies: of each warp, `tcgen05.mma`s in
    flight; commits: that have not arrived. scattered_budgets: see `PtxLaunch`. pending: clusters that have not started,
    the indices of their CTAs; answers: to the next requests to cancel one; refused: one was answered that none was.
    made_maps: what is known of tensor maps that the kernel makes, if it makes some."""

    memory: GlobalMemory
    clocks: Clocks
    findings: PtxFindings
    cluster: ClusterBarrier
    grid: tuple[int, int, int]
    ctas: list[Cta] = field(default_factory=list)
    progress: int = 0
    maps: dict[int, Any] = field(default_factory=dict)
    parameters: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    blocks: int = 0
    visited: set[int] = field(default_factory=set)
    multiplies: dict[int, WarpMultiplies] = field(default_factory=dict)
    commits: list[PendingCommit] = field(default_factory=list)
    scattered_budgets: bool = False
    pending: list[Sequence[Index]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    refused: bool = False
    made_maps: AcquiredMaps | None = None


@dataclass
class Cta:
    """One CTA. shared: its shared memory from address 0 on. rank: in its cluster. warp: number of its first warp among
    those of the cluster. pool: registers that setmaxnreg may hand out. tensor: its tensor memory, where it has any."""

    world: World
    index: tuple[int, int, int]
    rank: int
    warp: int
    threads: int
    shared: Array
    shadow: Shadow
    barriers: Barriers
    copies: Copies
    gangs: list[Gang] = field(default_factory=list)
    pool: int = 0
    local: dict[int, Array] = field(default_factory=dict)
    tensor: TensorMemory | None = None


@dataclass
class Budget:
    """A `setmaxnreg` that warps of a warp group execute, wherever each is. lanes: that have come; granted: all did."""

    wanted: int
    grows: bool
    lanes: Array
    granted: bool = False


class Gang:
    """Up to 128 threads that run together where they can. first: number of its first thread in the CTA.

    registers: by number. mask: lanes that run now, None for all that are alive. warps: of the lanes, numbers in the
    cluster. budget: registers that a thread has. impatience: turns in a row that did not end by themselves.
    """

    def __init__(self, cta: Cta, code: Code, first: int, size: int, mmas: MmasInFlight, tensor: TensorMoves) -> None:
        self.cta = cta
        self.code = code
        self.first = first
        self.size = size
        self.registers: list[Array] = list(code.initial)
        self.mask: Array | None = None
        self.alive = np.ones(size, bool)
        self.lane = np.arange(size)
        self.warps = cta.warp + (first + self.lane) // WARP
        self.own_warps = list(dict.fromkeys(self.warps.tolist()))
        self.first_lanes = np.arange(0, size, WARP)
        self.strands = [Strand(0, np.ones(size, bool))]
        self.products = mmas
        self.tensor = tensor
        self.strand = self.strands[0]
        self.budget = 0
        self.asking: Budget | None = None
        self.impatience = 0

    # ------------------------------------------------------------ what instructions use

    def lanes(self) -> Array:
        """Numbers of the lanes that run now."""
        if self.mask is None:
            return self.lane if len(self.strands) == 1 and every(self.alive) else np.flatnonzero(self.strand.lanes)
        return np.flatnonzero(self.mask)

    def running(self) -> Array:
        """Whether each lane runs now."""
        return self.strand.lanes if self.mask is None else self.mask

    def of_lanes(self, value: Array, lanes: Array) -> Array:
        """A value for these lanes."""
        if len(value) == 1:
            return value.repeat(len(lanes))
        return value if len(lanes) == self.size else value[lanes]

    def full(self, value: Array) -> Array:
        """A value for every lane of the gang."""
        return value.repeat(self.size) if len(value) == 1 else value

    def warps_of(self, lanes: Array) -> list[int]:
        """Warps that have some of these lanes (a mask)."""
        some = np.logical_or.reduceat(lanes, self.first_lanes).tolist()
        return [warp for warp, there in zip(self.own_warps, some, strict=True) if there]

    def lanes_of(self, warp: int, lanes: Array) -> Array:
        """Which of the 32 lanes of a warp are among these (a mask)."""
        first = WARP * (warp - self.own_warps[0])
        own = np.zeros(WARP, bool)
        own[: self.size - first] = lanes[first : first + WARP]
        return own

    def meet(self) -> None:
        """The warps of the lanes that run now meet: all lanes of theirs that have not ended are here."""
        self.cta.world.clocks.lanes.meet(self.warps_of(self.running()))

    def alone(self, warp: int) -> Array:
        """The lanes of one warp as a mask."""
        own: Array = self.warps == warp
        return own

    def who(self, lanes: Array | None = None) -> str:
        """Threads, for people."""
        numbers = np.flatnonzero(self.running() if lanes is None else lanes) + self.first
        if not len(numbers):
            return "no thread"
        low, high = int(numbers[0]), int(numbers[-1])
        span = f"thread {low}" if low == high else f"{len(numbers)} threads from {low} to {high}"
        return (
            f"{span} of CTA {self.cta.index[0]}" if self.cta.index[1:] == (0, 0) else f"{span} of CTA {self.cta.index}"
        )

    # ------------------------------------------------------------ running

    def advance(self, most: int = MANY) -> bool:
        """Run until nothing can go on, or others should have a turn, behind so many blocks; whether anything ran."""
        for ran in range(most):
            strand = self._next()
            if strand is None:
                self.impatience = 0
                self.cta.world.blocks += ran
                return ran > 0
            self._run(strand)
        self.impatience += 1
        self.cta.world.blocks += most
        return True

    def _next(self) -> Strand | None:
        if len(self.strands) == 1 and self.strands[0].wait is None and not self.strands[0].meeting:
            return self.strands[0]
        ready = []
        for strand in self.strands:
            if strand.meeting:
                continue
            if strand.wait is not None:
                if not strand.gave_up and not strand.wait.ready():
                    continue
                strand.wait = None
            ready.append(strand)
        if not ready:
            return None
        ready.sort(key=lambda strand: strand.block)
        best = ready[self.impatience % len(ready)]  # one that spins must not keep out whom it waits for
        for other in ready:
            if other is not best and other.block == best.block and other.gave_up == best.gave_up:
                best.lanes = best.lanes | other.lanes
                self.strands = [one for one in self.strands if one is not other]
        return best

    def _run(self, strand: Strand) -> None:
        """One block, and what ends it."""
        self.strand = strand
        self.cta.world.visited.add(strand.block)
        code = self.code
        block = code.blocks[strand.block]
        self.mask = None if len(self.strands) == 1 else strand.lanes
        if self.tensor.flying:
            self.tensor.check(self, block)
        if self.products.flying and not block.touched.isdisjoint(self.products.flying):
            self.products.run_carefully(self, block)
        else:
            for step in block.batches:
                step(self)
        if block.written:
            self.products.wrote(block.written)
        self.mask = None if len(self.strands) == 1 else strand.lanes
        block.end(self, strand)

    def go(self, strand: Strand, block: int) -> None:
        """The strand is there now; it runs with whoever is there already."""
        strand.block = block
        if len(self.strands) > 1:
            self._meet(strand)

    def part(self, strand: Strand, lanes: Array, block: int) -> None:
        """Some lanes of a strand go somewhere else."""
        strand.lanes = strand.lanes & ~lanes
        other = Strand(block, lanes)
        self.strands.append(other)
        self._meet(other)

    def _meet(self, strand: Strand) -> None:
        for other in self.strands:
            if other is not strand and other.block == strand.block and other.wait is None:
                other.lanes = other.lanes | strand.lanes
                other.meeting = False
                other.gave_up = False
                self.strands = [one for one in self.strands if one is not strand]
                return

    def leave(self, strand: Strand) -> None:
        """The lanes of a strand have ended."""
        self.alive = self.alive & ~strand.lanes
        self.strands = [one for one in self.strands if one is not strand]
        for other in self.strands:
            other.meeting = False
        self.cta.world.progress += 1
        for warp in self.own_warps:
            if not some(self.alive[self.warps == warp]):
                self.cta.world.cluster.leave(warp)
