"""Schedules with room.

The model counts the registers of tiles and estimates the rest. If ptxas needs more than the estimate (it spills, or
makes MMAs wait for want of registers, or of quiet around them), the kernel is solved again with some registers of each
computing warp group kept free of tiles. It also solves one loop at a time, each with all of shared memory: where the
rings of loops that follow one another do not fit beside one another, it is solved again with less for each. The
schedule that comes of it obeys the machine as it is: it is checked against it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from twill import exc
from twill.codegen.compile.facts import KernelFacts
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Context, Figure, Machine, Memory
from twill.machine.occupancy import register_pool
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import Schedule

ACCUMULATOR_LOAD = "tmem_load"  # the transfer that brings results of products into registers
LATE = 1.4  # times the time of an emission
STEP = 2  # granules of registers that are kept free in addition, at least, after each refusal

Solver = Callable[[DependenceGraph, Machine], Schedule]


@dataclass
class PatientSolver:
    """A solver with the time that an emission has from its first solve on: building what a schedule gives may take
    longer than solving does. When it is over, no other schedule is looked for, and none of the candidates that are left
    of one is tried: what was refused last is the answer. clock: in seconds."""

    solve: Solver
    seconds: float
    clock: Callable[[], float] = time.monotonic
    begun: float | None = None

    def __call__(self, graph: DependenceGraph, machine: Machine) -> Schedule:
        """A schedule. Raises BudgetExhausted when the time is over, and what the solver raises."""
        if self.over():
            raise exc.BudgetExhausted(f"no other schedule is looked for after {self.seconds:g} seconds")
        if self.begun is None:
            self.begun = self.clock()
        return self.solve(graph, machine)

    def over(self) -> bool:
        """Whether the time is over."""
        return self._beyond(self.seconds)

    def late(self) -> bool:
        """Whether so much more is over that nobody waits any longer for a build that was begun in time."""
        return self._beyond(LATE * self.seconds)

    def _beyond(self, seconds: float) -> bool:
        return self.begun is not None and self.clock() - self.begun > seconds


def never() -> bool:
    """Of an emission that takes as long as it does."""
    return False


@dataclass(frozen=True)
class Roomier:
    """A schedule, registers of each computing thread that it keeps free of tiles, and bytes of shared memory that each
    of its loops leaves."""

    room: int
    schedule: Schedule
    shared: int = 0


def solve_with_room(graph: DependenceGraph, machine: Machine, reserve: int, solve: Solver, shared: int = 0) -> Schedule:
    """A schedule for `machine` that leaves `reserve` registers of each computing thread free of tiles, and `shared`
    bytes of shared memory."""
    if not reserve and not shared:
        return solve(graph, machine)
    schedule = solve(graph, with_less_shared(roomier(machine, reserve), shared))
    digest = machine.digest()
    loops = tuple(
        loop.model_copy(update={"graph": loop.graph.model_copy(update={"machine_digest": digest})})
        for loop in schedule.loops
    )
    schedule = schedule.model_copy(update={"machine_digest": digest, "loops": loops})
    check_or_raise(schedule, machine)
    return schedule


def roomier(machine: Machine, reserve: int) -> Machine:
    """The machine with `reserve` more registers of overhead in every context whose threads hold tiles."""
    computing = _computing(machine)

    def with_room(context: Context) -> Context:
        if context.name not in computing:
            return context
        source = f"{context.overhead.source}; {reserve} more after a build that ran out of registers"
        figure = Figure(value=context.overhead.value + reserve, source=source)
        return context.model_copy(update={"overhead": figure})

    return machine.model_copy(update={"contexts": tuple(map(with_room, machine.contexts))})


def with_less_shared(machine: Machine, shared: int) -> Machine:
    """The machine with `shared` bytes less of shared memory."""
    if not shared:
        return machine

    def less(memory: Memory) -> Memory:
        if memory.name != "shared":
            return memory
        source = f"{memory.bytes.source}; {shared} less after rings that did not fit beside one another"
        return memory.model_copy(update={"bytes": Figure(value=memory.bytes.value - shared, source=source)})

    return machine.model_copy(update={"memories": tuple(map(less, machine.memories))})


def _computing(machine: Machine) -> tuple[str, ...]:
    """Names of the contexts whose threads hold tiles: that multiply, or that read what products left in tensor memory;
    all of them if nothing multiplies."""
    if machine.mma is None:
        return tuple(context.name for context in machine.contexts)
    return machine.transfer(ACCUMULATOR_LOAD).contexts if machine.mma.accumulator == "tmem" else machine.mma.contexts


def holds_tiles(schedule: Schedule, machine: Machine) -> bool:
    """Whether the threads of some warp group hold tiles, so that a schedule with room for more can be another one: a
    loop of products in tensor memory has only groups that issue."""
    return any(group.context in _computing(machine) for group in schedule.warp_groups)


def slack(schedule: Schedule, machine: Machine) -> int:
    """Registers per thread that each computing group could have beyond its budget, and had in the build: lowering hands
    out what the schedule leaves. Keeping only so many free would lead to the same schedule."""
    computing = [group for group in schedule.warp_groups if group.context in _computing(machine)]
    pool = register_pool(sum(group.threads for group in schedule.warp_groups), machine)
    free = pool - sum(group.threads * group.registers for group in schedule.warp_groups)
    shared = free // max(1, sum(group.threads for group in computing))
    own = (machine.context(group.context).max_registers - group.registers for group in computing)
    granule = machine.register_file.granule
    return max(0, min([shared, *own])) // granule * granule


def missing(rejected: exc.CandidateRefused, schedule: Schedule, machine: Machine) -> int:
    """Registers per thread to keep free in addition: what was spilled, or what the budgets or tiles are too much, or a
    few."""
    granule = machine.register_file.granule
    if isinstance(rejected, exc.RegisterFileFull):
        computing = sum(group.threads for group in schedule.warp_groups if group.context in _computing(machine))
        return -(-rejected.excess // max(1, computing * granule)) * granule
    facts = rejected.facts if isinstance(rejected, exc.BuildRejected) else None
    if facts is None and isinstance(rejected, exc.BuildRejected) and rejected.excess:
        return -(-rejected.excess // granule) * granule
    spilled = facts.spill_stores // 4 if isinstance(facts, KernelFacts) else 0  # 4 bytes each
    return max(STEP, min(4 * STEP, -(-spilled // granule))) * granule


def beyond(full: exc.SharedMemoryFull, schedule: Schedule, machine: Machine) -> int | None:
    """Bytes of shared memory that each loop has to leave in addition, so that the rings of all, and what tiles are
    stored through, fit: every loop its part of what they need too much. None where no loop has a ring, or what all
    need besides leaves none room for any."""
    used: dict[int, int] = {}
    for buffer in schedule.buffers:
        if buffer.space == "shared":
            used[buffer.loop] = used.get(buffer.loop, 0) + buffer.bytes * buffer.depth
    if not used:
        return None
    more = machine.capacity("shared") - max(used.values()) + -(-(full.needed - full.capacity) // len(used))
    return more if more < machine.capacity("shared") else None
