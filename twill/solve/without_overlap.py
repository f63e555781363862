"""A schedule whose iterations do not overlap, with the order of one whose iterations do.

Where the compiler finds no registers for what several iterations have in flight, each warp group can still do in every
iteration what the schedule says, in its order: with I = L, which breaks no rule that the schedule keeps. Warp groups
that wait for one another keep units busy meanwhile, so it is often much faster than L says. The order of the program
(`twill.zlp.sequential`) may be shorter, or longer: the shorter of both was the faster one of each of four kernels that
were simulated (docs/performance-log.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import LoopSchedule, Objective, Schedule
from twill.smt.assignment import Assignment
from twill.smt.outcome import Outcome
from twill.solve.assemble import Solved, assemble
from twill.zlp.exchange_order import exchange_order, joins
from twill.zlp.memory_use import MemoryUse
from twill.zlp.placement import demands
from twill.zlp.sequential import interval_of, starts_of
from twill.zlp.slots import slots_of


def without_overlap(schedule: Schedule, graph: DependenceGraph, machine: Machine) -> Schedule | None:
    """The schedule with I = L in every loop; None where none has iterations that overlap. Raises InvalidSchedule."""
    if all(loop.length <= loop.ii for loop in schedule.loops):
        return None
    slot = dict(_slots(schedule, machine))
    solved = [_alone(schedule, loop, graph, machine, slot) for loop in schedule.loops]
    main = next(one for one, loop in zip(solved, schedule.loops, strict=True) if loop.objective == schedule.objective)
    found = assemble(
        graph, machine, main, solved, schedule.candidates, schedule.pins, schedule.key, schedule.solve_seconds
    ).model_copy(update={"strategy": schedule.strategy})
    check_or_raise(found, machine)
    return found


def shares(schedule: Schedule) -> bool:
    """Whether each row block has a share of an MMA that joins row blocks, in some loop."""
    return any(len(joins(loop.graph)) > 1 for loop in schedule.loops)


def exchanges(schedule: Schedule) -> bool:
    """Whether an MMA joins row blocks, in some loop. Where registers are few, iterations that overlap are slower there:
    attention backward at D = 64 by 2 to 7 % (docs/performance-log.md)."""
    return any(joins(loop.graph) for loop in schedule.loops)


def _slots(schedule: Schedule, machine: Machine) -> Iterator[tuple[int, int]]:
    """Each warp group with a slot of its kind."""
    free = [*slots_of(machine)]
    for group in schedule.warp_groups:
        one = next(s for s in free if (s.context.name, s.context.threads) == (group.context, group.threads))
        free.remove(one)
        yield group.id, one.id


def _alone(
    schedule: Schedule, loop: LoopSchedule, graph: DependenceGraph, machine: Machine, slot: dict[int, int]
) -> Solved:
    """A loop with I = L. slot: by warp group."""
    ops = {op.id: op for op in schedule.ops if op.loop == loop.loop}
    mine = [ops[instruction.id] for instruction in loop.graph.instructions]
    start, slots = tuple(op.start for op in mine), tuple(slot[op.warp_group] for op in mine)
    ii = max(loop.ii, loop.length)
    if len(joins(loop.graph)) > 1:
        start, ii = _in_exchange_order(loop.graph, machine, slots) or (start, ii)
    a = Assignment(loop.graph, machine, slots_of(machine), ii, start, slots)
    objective = Objective(
        ii=a.ii, copies=a.copies, crossing=a.crossing, length=a.length, registers=a.registers, proven=()
    )
    certificate = loop.certificate.model_copy(update={"optimal": False})
    region = next(region for region in graph.regions if region.id == loop.loop)
    return Solved(region, loop.graph, Outcome(a, objective, certificate, infeasible=False))


def _in_exchange_order(
    graph: CostedGraph, machine: Machine, slots: tuple[int, ...]
) -> tuple[tuple[int, ...], int] | None:
    """The starts of all instructions and I, in the order of `exchange_order`; None where registers do not suffice."""
    base = demands(graph, slots)
    order = exchange_order(graph, slots, base.arcs)
    start = None if order is None else starts_of(graph, base, slots, order)
    if start is None:
        return None
    ii = interval_of(graph, base, start)
    fits = MemoryUse(graph, machine, slots_of(machine), slots).budgets(start, ii) is not None
    return (tuple(start), ii) if fits else None
