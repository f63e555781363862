"""Rules on what is alive: rings, shared memory and TMEM, registers and their budgets.

Values are followed from birth to death over the iterations of a timeline
(`twill.schedule.checker.timeline`); docs/model.md says when that is and who is charged for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from twill.graph.costed import CostedGraph, CostedValue, Instruction, Storage
from twill.machine.description import Context, Machine
from twill.schedule.checker.timeline import Timeline
from twill.schedule.checker.violation import BrokenRule, violation
from twill.schedule.document import ScheduledBuffer, ScheduledWarpGroup

MEMORIES = ("shared", "tmem")


@dataclass(frozen=True)
class RingDepth:
    """A value's ring: the slots the document gives it (None: it has no buffer) and the slots it needs."""

    value: CostedValue
    given: int | None
    needed: int


@dataclass(frozen=True)
class Pressure:
    """Registers per thread that one warp group needs in one loop, without its overhead.

    resident: storages, invariants, landing places. peak: with the values alive at the worst
    cycle. over(limit) is the first cycle that needs more than `limit`, and the values alive then.
    """

    resident: int
    peak: int
    history: tuple[tuple[int, int, tuple[int, ...]], ...]  # cycle, registers, ids of live values: rising peaks only

    def over(self, limit: float) -> tuple[int, tuple[int, ...]]:
        """The first cycle that needs more than `limit` registers and the values alive then."""
        return next((cycle, live) for cycle, registers, live in self.history if registers > limit)


def rings(timeline: Timeline, buffers: tuple[ScheduledBuffer, ...]) -> tuple[list[RingDepth], list[BrokenRule]]:
    """Every ring of the loop, and what is wrong with the list of the loop's buffers.

    Buffers are known by name and space only; those of one name are matched by size.
    """
    graph = timeline.graph
    found: list[BrokenRule] = []
    result: list[RingDepth] = []
    wanted: dict[tuple[str, str], list[tuple[int, int, CostedValue | None, Instruction | None]]] = defaultdict(list)
    offered: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for value in timeline.made():
        if value.space in MEMORIES and value.storage is None:
            at = timeline.instruction(value.producer)
            wanted[value.name, value.space].append((value.bytes, slots_needed(timeline, value), value, at))
    for fixed in residents(graph):
        if fixed.space in MEMORIES:
            wanted[fixed.name, fixed.space].append((fixed.bytes, 1, None, None))
    for buffer in buffers:
        offered[buffer.name, buffer.space].append((buffer.bytes, buffer.depth))

    for name, space in sorted(wanted.keys() | offered.keys()):
        needs = sorted(wanted[name, space], key=lambda need: need[:2])
        have = sorted(offered[name, space])
        for _, depth in have[len(needs) :]:
            message = f"buffer {name} in {space} (depth {depth}) belongs to no value of the loop"
            found.append(violation("buffers", message, loop=timeline.loop))
        for index, (nbytes, needed, ring, maker) in enumerate(needs):
            where = (maker,) if maker is not None else ()
            given_bytes, given = have[index] if index < len(have) else (nbytes, None)
            if index >= len(have):
                message = f"{name} lives in {space} and has no buffer"
                found.append(violation("buffers", message, loop=timeline.loop, at=where))
            if given_bytes != nbytes:
                message = f"buffer {name} has slots of {given_bytes} bytes, {name} has {nbytes}"
                found.append(violation("buffers", message, loop=timeline.loop, at=where))
            if ring is not None:
                result.append(RingDepth(ring, given, needed))
            elif given not in (None, 1):
                message = f"buffer {name} has depth {given}; it is resident, which is depth 1"
                found.append(violation("buffers", message, loop=timeline.loop, at=where))
    return result, found


def residents(graph: CostedGraph) -> tuple[Storage, ...]:
    """Everything that occupies a memory during the whole loop: storages and invariants."""
    return (*graph.storages, *graph.invariants)


def slots_needed(timeline: Timeline, value: CostedValue) -> int:
    """The most copies of `value` alive at once, at least 1."""
    alive, most = 0, 1
    for _, change, _ in changes(timeline, (value,)):
        alive += change
        most = max(most, alive)
    return most


def changes(timeline: Timeline, values: tuple[CostedValue, ...]) -> list[tuple[int, int, int]]:
    """(cycle, +1 born or -1 dead, value id), deaths first: lifetimes are half-open."""
    events = []
    for value in values:
        for iteration in range(timeline.iterations):
            birth, death = timeline.lifetime(value, iteration)
            if death > birth:
                events += [(birth, 1, value.id), (death, -1, value.id)]
    return sorted(events)


def depth(timeline: Timeline, every: list[RingDepth]) -> Iterator[BrokenRule]:
    """Iteration i writes slot i mod depth: nobody may still read what is there."""
    for ring in every:
        if ring.given is None:
            continue
        at = timeline.instruction(ring.value.producer)
        name = ring.value.name
        if ring.given < 1:
            message = f"the ring of {name} has depth {ring.given}; it needs {ring.needed}"
            yield violation("depth", message, loop=timeline.loop, at=(at,))
            continue
        free_at: dict[int, int] = {}
        for iteration in range(timeline.iterations):
            birth, death = timeline.lifetime(ring.value, iteration)
            slot = iteration % ring.given
            if free_at.get(slot, birth) > birth:
                yield violation(
                    "depth",
                    f"{name} of iteration {iteration} is written into slot {slot} at cycle {birth}, where iteration"
                    f" {iteration - ring.given} is read until {free_at[slot]}: depth {ring.given} of {ring.needed}",
                    loop=timeline.loop,
                    at=(at,),
                    cycle=birth,
                )
                break
            free_at[slot] = death


def memory_capacity(timeline: Timeline, every: list[RingDepth], machine: Machine) -> Iterator[BrokenRule]:
    """Rings, storages and invariants of a memory fit it."""
    graph = timeline.graph
    for space in MEMORIES:
        parts = [(r.value.name, r.value.bytes, max(r.given or 0, r.needed)) for r in every if r.value.space == space]
        parts += [(fixed.name, fixed.bytes, 1) for fixed in residents(graph) if fixed.space == space]
        used = sum(nbytes * slots for _, nbytes, slots in parts)
        if used <= machine.capacity(space):
            continue
        makers = [timeline.instruction(r.value.producer) for r in every if r.value.space == space]
        listed = ", ".join(f"{name} {slots} × {nbytes}" for name, nbytes, slots in parts)
        yield violation(
            "memory capacity",
            f"{used} bytes of {space} memory are needed, {machine.name} has {machine.capacity(space)}: {listed}",
            loop=timeline.loop,
            at=makers,
        )


def pressure(timeline: Timeline, group: int) -> Pressure:
    """The registers of warp group `group` over time."""
    graph = timeline.graph
    in_registers = [value for value in timeline.made() if value.space == "register"]
    made_here = [value for value in in_registers if timeline.group(value.producer) == group]
    updated = {value.storage for value in made_here}
    landing = [
        value
        for value in in_registers
        if value.storage is None
        and timeline.group(value.producer) != group
        and any(timeline.group(reader) == group for reader in timeline.readers(value))
    ]
    resident = sum(s.registers for s in graph.storages if s.space == "register" and s.id in updated)
    resident += sum(value.registers for value in landing)
    resident += sum(
        i.registers
        for i in graph.invariants
        if i.space == "register" and any(r in timeline.placed and timeline.group(r) == group for r in i.readers)
    )
    own = {value.id: value for value in made_here if value.storage is None}
    history: list[tuple[int, int, tuple[int, ...]]] = [(0, resident, ())] if resident else []
    copies: dict[int, int] = dict.fromkeys(own, 0)
    now = peak = resident
    for cycle, change, number in changes(timeline, tuple(own.values())):
        copies[number] += change
        now += change * own[number].registers
        if now > peak:
            peak = now
            live = tuple(value for value, count in copies.items() if count)
            history = [past for past in history if past[0] != cycle] + [(cycle, now, live)]
    return Pressure(resident, peak, tuple(history))


def register_limit(timeline: Timeline, groups: dict[int, ScheduledWarpGroup], machine: Machine) -> Iterator[BrokenRule]:
    """At no cycle does a warp group need more registers than its budget."""
    overheads = {context.name: context.overhead.value for context in machine.contexts}
    values = {value.id: value for value in timeline.graph.values}
    for number in sorted({placed.group for placed in timeline.placed.values()}):
        group = groups.get(number)
        if group is None:
            continue
        needs = pressure(timeline, number)
        overhead = overheads.get(group.context, 0.0)
        if needs.peak == 0 or needs.peak + overhead <= group.registers:
            continue
        cycle, live = needs.over(group.registers - overhead)
        issued_here = [p.instruction for p in timeline.placed.values() if p.group == number]
        yield violation(
            "register limit",
            f"warp group {number} ({group.role}) needs {needs.peak} registers a thread ({needs.resident} of them all"
            f" the time) and {overhead:g} of overhead, its budget is {group.registers}",
            loop=timeline.loop,
            at=[timeline.instruction(values[value].producer) for value in live] or issued_here,
            cycle=cycle,
        )


def least_budget(needs: Pressure, context: Context, granule: int) -> int:
    """The smallest budget that a group of `context` may have with these needs."""
    if needs.peak == 0:
        return context.min_registers
    registers = needs.peak + context.overhead.value
    return max(context.min_registers, int(-(-registers // granule)) * granule)
