"""No pipelining: one iteration at a time, each warp group issuing in program order.

What a kernel does whose loop body runs from top to bottom before the next iteration begins. Warp groups
still work side by side within the iteration; I is at least L, so there is one copy of everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.zlp.bound import ceil_div
from twill.zlp.grouping import Groups
from twill.zlp.heuristic import HeuristicSchedule
from twill.zlp.memory_use import MemoryUse
from twill.zlp.placement import Arc, Demands, ReservationTable, demands
from twill.zlp.slots import slots_of


def sequential_schedule(graph: CostedGraph, machine: Machine, choices: Iterable[Groups]) -> HeuristicSchedule | None:
    """The valid schedule without overlap of iterations that has the least I among these warp groups.

    choices: warp groups to try (`twill.zlp.grouping.proposals`); of equal I the least crossing wins, then
    the fewest registers, then the first. None: with no choice do memories and registers suffice.
    """
    best: tuple[tuple[int, int, int], HeuristicSchedule] | None = None
    for groups in choices:
        found = in_order(graph, machine, groups)
        if found is None:
            continue
        crossing = sum(e.crossing for e in graph.edges if e.kind == "value" and groups[e.src] != groups[e.dst])
        rank = (found.ii, crossing, sum(found.budgets))
        if best is None or rank < best[0]:
            best = rank, found
    return best[1] if best is not None else None


def in_order(graph: CostedGraph, machine: Machine, groups: Groups) -> HeuristicSchedule | None:
    """The schedule of these warp groups, every instruction as early as program order lets it start."""
    slots = slots_of(machine)
    memory_use = MemoryUse(graph, machine, slots, groups)
    if not graph.instructions or not memory_use.possible():
        return None
    base = demands(graph, groups)
    start = _starts(graph, base, groups)
    if start is None:
        return None
    ii = _interval(graph, base, start)
    budgets = memory_use.budgets(start, ii)
    if budgets is None:
        return None
    return HeuristicSchedule(ii, tuple(start), groups, tuple(budgets.get(s, 0) for s in range(len(slots))))


def order_of(count: int, arcs: Sequence[Arc]) -> list[int]:
    """Instructions so that each comes after what it waits for in its iteration, else by their ids."""
    from twill.graph.networks import program_order

    # A cycle of delays <= 0 has no first instruction; its ids are as good an order as any.
    return program_order(count, ((src, dst) for src, dst, _, distance in arcs if not distance))


def _starts(graph: CostedGraph, base: Demands, groups: Groups) -> list[int] | None:
    """Start of every instruction, the earliest 0; None if program order contradicts a dependence, or
    an instruction meets itself."""
    count = len(graph.instructions)
    ends = [max((s + c for _, s, c in needs), default=0) for needs in base.needs]
    horizon = 1 + sum(ends) + sum(abs(delay) for _, _, delay, _ in base.arcs) + sum(i.hold for i in graph.instructions)
    table = ReservationTable(base, horizon)  # so long that nothing wraps around: a plain reservation table
    if not table.sound():  # what an instruction holds meets what takes its value out of its warp group
        return None
    within = [arc for arc in base.arcs if not arc[3]]
    start: dict[int, int] = {}
    issued = dict.fromkeys(groups, 0)  # when each warp group can issue its next instruction
    for v in order_of(count, base.arcs):
        earliest = [start[src] + delay for src, dst, delay, _ in within if dst == v and src in start]
        t = table.first(v, max([issued[groups[v]], *earliest]), horizon)
        if t is None:
            return None
        table.put(v, t)
        start[v] = t
        issued[groups[v]] = t + graph.instructions[v].hold
    if any(start[dst] < start[src] + delay for src, dst, delay, _ in within):
        return None
    first = min(start.values())
    return [start[v] - first for v in range(count)]


def _interval(graph: CostedGraph, base: Demands, start: Sequence[int]) -> int:
    """The smallest I at which an iteration is over, with all that it occupies, before the next one starts."""
    over = [t + i.latency for t, i in zip(start, graph.instructions, strict=True)]
    over += [start[v] + s + c for v, needs in enumerate(base.needs) for _, s, c in needs]
    over += [ceil_div(start[src] + d - start[dst], distance) for src, dst, d, distance in base.arcs if distance]
    busy: dict[str, int] = {}
    for i in graph.instructions:
        for use in i.uses:
            busy[use.unit] = busy.get(use.unit, 0) + use.cycles
    return max([1, *over, *busy.values()])
