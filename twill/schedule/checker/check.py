"""The independent checker: every rule of docs/model.md that a schedule breaks.

It knows nothing of the solver. It reads the schedule document (each loop with its costed
graph) and the machine, unrolls each loop over real cycles, and looks at what happens: who
occupies which unit, who holds which warp group, what is alive, which slot is overwritten::

    schedule = load_schedule("attention.json")
    for violation in check(schedule, machine):
        print(violation.describe())
"""

from __future__ import annotations

from collections.abc import Iterator

from twill.exc import InvalidSchedule
from twill.machine.description import Machine
from twill.schedule.checker import document as check_document
from twill.schedule.checker import figures as check_figures
from twill.schedule.checker import issue as check_issue
from twill.schedule.checker import memory as check_memory
from twill.schedule.checker.certificate import certificate
from twill.schedule.checker.timeline import unroll
from twill.schedule.checker.violation import RULES, BrokenRule, in_order, violation
from twill.schedule.document import LoopSchedule, Schedule
from twill.schedule.file import load_schedule

__all__ = ["RULES", "BrokenRule", "check", "check_or_raise", "load_schedule"]


def check(schedule: Schedule, machine: Machine) -> tuple[BrokenRule, ...]:
    """Every violation, first those of the schedule as a whole, then loop by loop in the order of
    the rules; empty if the schedule is valid. Cycles are the graphs' own (normalized graphs are
    checked in their units)."""
    found = [*check_document.machine(schedule, machine), *check_document.warp_groups(schedule, machine)]
    found += check_document.max_groups(schedule, machine)
    found += check_figures.register_file(schedule, machine)
    found += check_figures.main_loop(schedule)
    for loop in schedule.loops:
        found += check_loop(schedule, loop, machine)
    return in_order(found, tuple(loop.loop for loop in schedule.loops))


def check_or_raise(schedule: Schedule, machine: Machine, *, file: str = "") -> None:
    """Raise `InvalidSchedule`, with every violation listed, if there is any."""
    found = check(schedule, machine)
    if found:
        raise InvalidSchedule(
            f"this schedule breaks {len(found)} rule{'s' if len(found) > 1 else ''} of docs/model.md:\n"
            + "\n".join(f"  {item.describe()}" for item in found),
            file=file,
            hint="solve the kernel again for this machine; a schedule cannot be edited by hand",
        )


def check_loop(schedule: Schedule, loop: LoopSchedule, machine: Machine) -> Iterator[BrokenRule]:
    """The rules that one loop can break."""
    malformed = [*check_document.graph(loop.loop, loop.graph)]
    if malformed:
        yield from malformed
        return
    if loop.ii < 1:
        yield violation("figures", f"the initiation interval is {loop.ii}; it is at least 1", loop=loop.loop)
        return
    placed, differences = check_document.place(loop, (op for op in schedule.ops if op.loop == loop.loop))
    yield from differences
    yield from check_document.units(loop.loop, loop.graph, machine)
    yield from check_document.interleaved(loop.loop, loop.graph, machine)
    yield from certificate(loop)
    timeline = unroll(loop.loop, loop.graph, loop.ii, placed)
    if timeline is None:
        message = f"one iteration is so much longer than initiation interval {loop.ii} that it cannot be laid out"
        yield violation("completion", message, loop=loop.loop)
        return

    groups = {group.id: group for group in schedule.warp_groups}
    yield from check_issue.dependence(timeline)
    yield from check_issue.capacity(timeline)
    yield from check_document.warp_uniqueness(timeline, groups)
    yield from check_document.single_issuer(timeline)
    yield from check_document.variable_latency(timeline)
    yield from check_issue.concurrency(timeline)
    yield from check_issue.spills(timeline)
    yield from check_memory.register_limit(timeline, groups, machine)
    if len(placed) < len(loop.graph.instructions):
        return  # sums over a part of the loop would only repeat that the rest is missing

    yield from check_document.beginning(timeline)
    yield from check_figures.completion(timeline, loop)
    yield from check_figures.objective(timeline, loop, groups, machine, alone=len(schedule.loops) == 1)
    buffers = tuple(buffer for buffer in schedule.buffers if buffer.loop == loop.loop)
    rings, mismatched = check_memory.rings(timeline, buffers)
    yield from mismatched
    yield from check_memory.depth(timeline, rings)
    yield from check_memory.memory_capacity(timeline, rings, machine)
