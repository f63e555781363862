"""Rules on the summary figures of a schedule: length, copies, objectives, budgets, main loop."""

from __future__ import annotations

from collections.abc import Iterator

from twill.machine.description import Machine
from twill.schedule.checker.certificate import OBJECTIVES
from twill.schedule.checker.memory import least_budget, pressure
from twill.schedule.checker.timeline import Timeline
from twill.schedule.checker.violation import BrokenRule, violation
from twill.schedule.document import LoopSchedule, Schedule, ScheduledWarpGroup


def completion(timeline: Timeline, loop: LoopSchedule) -> Iterator[BrokenRule]:
    """The length is when the last result of an iteration is there, and copies follow from it."""
    if not timeline.placed:
        return
    ends = {number: timeline.start(number, 0) + p.instruction.latency for number, p in timeline.placed.items()}
    last = max(ends, key=lambda number: ends[number])
    for number, end in ends.items():
        if end > loop.length:
            at = timeline.instruction(number)
            message = f"{at.name} is complete at cycle {end}, after the length {loop.length}"
            yield violation("completion", message, loop=loop.loop, at=(at,), cycle=end)
    if loop.length > ends[last]:
        at = timeline.instruction(last)
        message = f"the length is {loop.length}, but the last instruction, {at.name}, is complete at {ends[last]}"
        yield violation("completion", message, loop=loop.loop, at=(at,), cycle=ends[last])
    started = sum(1 for iteration in range(timeline.iterations) if iteration * timeline.ii < ends[last])
    if loop.copies != max(1, started):
        message = f"copies is {loop.copies}, but {max(1, started)} iterations are under way at once"
        yield violation("figures", message, loop=loop.loop)


def objective(
    timeline: Timeline, loop: LoopSchedule, groups: dict[int, ScheduledWarpGroup], machine: Machine, alone: bool
) -> Iterator[BrokenRule]:
    """Every objective number follows from the ops. alone: the schedule has this loop only."""
    said = loop.objective
    crossing = sum(
        edge.crossing
        for edge in timeline.graph.edges
        if edge.kind == "value"
        and {edge.src, edge.dst} <= timeline.placed.keys()
        and timeline.group(edge.src) != timeline.group(edge.dst)
    )
    numbers = {"ii": loop.ii, "copies": loop.copies, "length": loop.length, "crossing": crossing}
    for name, number in numbers.items():
        if getattr(said, name) != number:
            message = f"{name} is {getattr(said, name)} in the objective, but {number} in the schedule"
            yield violation("objective", message, loop=loop.loop)
    if said.proven != OBJECTIVES[: len(said.proven)]:
        message = f"proven is ({', '.join(said.proven)}), which is no prefix of ({', '.join(OBJECTIVES)})"
        yield violation("objective", message, loop=loop.loop)

    contexts = {context.name: context for context in machine.contexts}
    used = [groups[n] for n in sorted({p.group for p in timeline.placed.values()}) if n in groups]
    most = sum(group.registers for group in used)
    least = most if alone else 0
    for group in used if not alone else ():
        context = contexts.get(group.context)
        if context is not None:
            least += least_budget(pressure(timeline, group.id), context, machine.register_file.granule)
    if not min(least, most) <= said.registers <= most:
        expected = f"{most}" if alone else f"between {least} and {most}"
        message = f"registers is {said.registers} in the objective, but {expected} by the warp groups' budgets"
        yield violation("objective", message, loop=loop.loop)


def register_file(schedule: Schedule, machine: Machine) -> Iterator[BrokenRule]:
    """Budgets are granted in granules, within their context's limits, out of one register file."""
    contexts = {context.name: context for context in machine.contexts}
    granule = machine.register_file.granule
    used = {op.warp_group for op in schedule.ops}
    total = 0
    for group in schedule.warp_groups:
        if group.id in used:
            total += group.registers * group.threads
        context = contexts.get(group.context)
        if context is None:
            continue
        if group.registers % granule:
            message = f"warp group {group.id} has {group.registers} registers a thread, no multiple of {granule}"
            yield violation("register file", message)
        if not context.min_registers <= group.registers <= context.max_registers:
            message = (
                f"warp group {group.id} has {group.registers} registers a thread; context {context.name} can have"
                f" {context.min_registers} to {context.max_registers}"
            )
            yield violation("register file", message)
    if total > machine.register_file.registers.value:
        message = f"the warp groups have {total} registers, an SM has {machine.register_file.registers.value:g}"
        yield violation("register file", message)


def main_loop(schedule: Schedule) -> Iterator[BrokenRule]:
    """The figures at the top are those of one of the loops."""
    if not schedule.loops:
        yield violation("figures", "the schedule has no loop")
        return
    numbers = [loop.loop for loop in schedule.loops]
    for number in sorted({n for n in numbers if numbers.count(n) > 1}):
        yield violation("figures", f"several loops have id {number}", loop=number)
    for loop in schedule.loops:
        if (loop.loop, loop.line) != (loop.graph.region, loop.graph.line):
            message = (
                f"loop {loop.loop} (line {loop.line}) has the graph of {loop.graph.region} (line {loop.graph.line})"
            )
            yield violation("figures", message, loop=loop.loop)
        if loop.graph.cooperation != schedule.cooperation:
            yield violation("figures", "the loop's graph has another cooperation than the schedule", loop=loop.loop)
    for op in schedule.ops:
        if op.loop not in numbers:
            yield violation("operations", f"op {op.id} ({op.name}) is of loop {op.loop}, which the schedule has not")
    for buffer in schedule.buffers:
        if buffer.loop not in numbers:
            message = f"buffer {buffer.name} is of loop {buffer.loop}, which the schedule has not"
            yield violation("buffers", message)
    top = (schedule.ii, schedule.length, schedule.copies, schedule.objective, schedule.certificate)
    same = [loop for loop in schedule.loops if top == summary(loop)]
    if not same:
        yield violation("figures", "ii, length, copies, objective, certificate at the top are those of no loop")
    elif all(loop.graph.normalization != schedule.normalization for loop in same):
        yield violation("figures", "the normalization at the top is not that of the main loop's graph")
    chosen = [candidate for candidate in schedule.candidates if candidate.verdict == "chosen"]
    if any(candidate.cooperation != schedule.cooperation for candidate in chosen):
        yield violation("figures", "the chosen candidate has another cooperation than the schedule")


def summary(loop: LoopSchedule) -> tuple[object, ...]:
    """The figures that the main loop shares with the top of the document."""
    return (loop.ii, loop.length, loop.copies, loop.objective, loop.certificate)
