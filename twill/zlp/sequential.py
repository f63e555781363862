"""No pipelining: one iteration at a time, each warp group issuing in program order.

What a kernel does whose loop body runs from top to bottom before the next iteration begins, or in an order that keeps
fewer registers alive. Warp groups still work side by side within the iteration; I is at least L, so there is one copy
of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from twill.graph.costed import CostedGraph
from twill.graph.program_order import program_order
from twill.machine.description import Machine
from twill.zlp.bound import ceil_div
from twill.zlp.grouping import Groups
from twill.zlp.heuristic import HeuristicSchedule
from twill.zlp.memory_use import MemoryUse
from twill.zlp.placement import Arc, Demands, ReservationTable, demands
from twill.zlp.resource import busy_cycles
from twill.zlp.slots import slots_of


def sequential_schedule(
    graph: CostedGraph,
    machine: Machine,
    choices: Iterable[Groups],
    thrifty: bool = False,
    fits: Callable[[HeuristicSchedule], bool] = lambda found: True,
) -> HeuristicSchedule | None:
    """The valid schedule without overlap of iterations that has the least I among these warp groups.

    choices: warp groups to try (`twill.zlp.grouping.proposals`); of equal I the least crossing wins, then
    the fewest registers, then the first. thrifty: not only in the order of the program, but also in orders that keep
    few registers alive. fits: which of them are wanted. None: with no choice do memories and registers suffice.
    """
    best: tuple[tuple[int, int, int], HeuristicSchedule] | None = None
    for groups in choices:
        for found in in_orders(graph, machine, groups, thrifty):
            rank = rank_of(graph, found)
            if (best is None or rank < best[0]) and fits(found):
                best = rank, found
    return best[1] if best is not None else None


def rank_of(graph: CostedGraph, found: HeuristicSchedule) -> tuple[int, int, int]:
    """I, crossing and registers of a schedule: what such schedules are compared by."""
    groups = found.group
    crossing = sum(e.crossing for e in graph.edges if e.kind == "value" and groups[e.src] != groups[e.dst])
    return found.ii, crossing, sum(found.budgets)


def in_orders(
    graph: CostedGraph, machine: Machine, groups: Groups, thrifty: bool = False
) -> Iterator[HeuristicSchedule]:
    """The schedules of these warp groups, every instruction as early as its order lets it start."""
    slots = slots_of(machine)
    memory_use = MemoryUse(graph, machine, slots, groups)
    if not graph.instructions or not memory_use.possible():
        return
    for start, ii in timed_orders(graph, groups, thrifty):
        budgets = memory_use.budgets(start, ii)
        if budgets is not None:
            every = tuple(budgets.get(s, 0) for s in range(len(slots)))
            yield HeuristicSchedule(ii, tuple(start), groups, every)


def timed_orders(graph: CostedGraph, groups: Groups, thrifty: bool = True) -> Iterator[tuple[list[int], int]]:
    """The starts of all instructions, as early as an order lets them start, and I; whatever memory they take. The order
    of the program, and those of `thrifty_orders`."""
    base = demands(graph, groups)
    orders = [order_of(len(graph.instructions), base.arcs)]
    orders += thrifty_orders(graph, base.arcs) if thrifty else []
    for order in orders:
        start = starts_of(graph, base, groups, order)
        if start is not None:
            yield start, interval_of(graph, base, start)


def thrifty_orders(graph: CostedGraph, arcs: Sequence[Arc]) -> Iterator[list[int]]:
    """Orders in which what takes no registers comes first, and then what takes the fewest, or the program's next; and
    one made from its end, where what takes the fewest registers in front of it comes last."""
    ranks: tuple[Callable[[int, int], tuple[int, int]], ...] = (
        lambda taken, v: (taken, v),
        lambda taken, v: (int(taken > 0), v),
    )
    for rank in ranks:
        order = _thrifty(graph, arcs, rank)
        if order is not None:
            yield order
    order = _from_the_end(graph, arcs)
    if order is not None:
        yield order


def _from_the_end(graph: CostedGraph, arcs: Sequence[Arc]) -> list[int] | None:
    """Of the instructions that nothing waits for any more, the last is one that adds the fewest registers to what is
    alive: those that it reads and nothing behind it does, less those that it makes. None if delays of nothing make a
    cycle."""
    count = len(graph.instructions)
    before, left = _neighbours(count, ((dst, src) for src, dst, _, distance in arcs if not distance))
    free = [v for v in graph.values if v.space == "register" and v.storage is None and v.registers]
    makes: list[list[int]] = [[] for _ in range(count)]
    reads: list[list[int]] = [[] for _ in range(count)]
    registers = {v.id: v.registers for v in free}
    for value in free:
        makes[value.producer].append(value.id)
        for read in value.reads:
            if not read.distance:
                reads[read.reader].append(value.id)
    alive = {v.id for v in free if any(read.distance for read in v.reads)}
    ready, order = {v for v in range(count) if not left[v]}, list[int]()

    def added(v: int) -> tuple[int, int]:
        more = sum(registers[x] for x in reads[v] if x not in alive)
        return more - sum(registers[x] for x in makes[v] if x in alive), -v

    while ready:
        v = min(ready, key=added)
        ready.remove(v)
        order.append(v)
        alive.update(reads[v])
        alive.difference_update(makes[v])
        for src in before[v]:
            left[src] -= 1
            if not left[src]:
                ready.add(src)
    return order[::-1] if len(order) == count else None


def _thrifty(graph: CostedGraph, arcs: Sequence[Arc], rank: Callable[[int, int], tuple[int, int]]) -> list[int] | None:
    """Ready instructions, the least rank first. rank: of the registers that an instruction takes, less those that it
    gives back, and of the instruction. None if delays of nothing make a cycle."""
    count = len(graph.instructions)
    after, waits = _neighbours(count, ((src, dst) for src, dst, _, distance in arcs if not distance))
    free = [v for v in graph.values if v.space == "register" and v.storage is None]
    made = [sum(v.registers for v in free if v.producer == i) for i in range(count)]
    readers = {v.id: {read.reader for read in v.reads} for v in free if all(not read.distance for read in v.reads)}
    registers = {v.id: v.registers for v in free}
    reading: list[list[int]] = [[] for _ in range(count)]
    for value, those in readers.items():
        for reader in those:
            reading[reader].append(value)
    ready, order = {v for v in range(count) if not waits[v]}, list[int]()
    while ready:
        taken = {v: made[v] - sum(registers[x] for x in reading[v] if readers[x] == {v}) for v in ready}
        v = min(ready, key=lambda one: rank(taken[one], one))
        ready.remove(v)
        order.append(v)
        for value in reading[v]:
            readers[value].discard(v)
        for dst in after[v]:
            waits[dst] -= 1
            if not waits[dst]:
                ready.add(dst)
    return order if len(order) == count else None


def _neighbours(count: int, pairs: Iterable[tuple[int, int]]) -> tuple[list[set[int]], list[int]]:
    """Of each of `count` instructions the others that follow it, and how many it follows, in pairs of one that goes
    first and one that follows."""
    following: list[set[int]] = [set() for _ in range(count)]
    for first, second in pairs:
        if first != second:
            following[first].add(second)
    return following, [sum(v in those for those in following) for v in range(count)]


def order_of(count: int, arcs: Sequence[Arc]) -> list[int]:
    """Instructions so that each comes after what it waits for in its iteration, else by their ids."""
    # A cycle of delays <= 0 has no first instruction; its ids are as good an order as any.
    return program_order(count, ((src, dst) for src, dst, _, distance in arcs if not distance))


def starts_of(graph: CostedGraph, base: Demands, groups: Sequence[int], order: Sequence[int]) -> list[int] | None:
    """Start of every instruction, as early as `order` lets it, the earliest 0; None if the order contradicts a
    dependence, or an instruction meets itself."""
    count = len(graph.instructions)
    ends = [max((s + c for _, s, c in needs), default=0) for needs in base.needs]
    horizon = 1 + sum(ends) + sum(abs(delay) for _, _, delay, _ in base.arcs) + sum(i.hold for i in graph.instructions)
    table = ReservationTable(base, horizon)  # so long that nothing wraps around: a plain reservation table
    if not table.sound():  # what an instruction holds meets what takes its value out of its warp group
        return None
    within = [arc for arc in base.arcs if not arc[3]]
    start: dict[int, int] = {}
    issued = dict.fromkeys(groups, 0)  # when each warp group can issue its next instruction
    for v in order:
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


def interval_of(graph: CostedGraph, base: Demands, start: Sequence[int]) -> int:
    """The smallest I at which an iteration is over, with all that it occupies, before the next one starts."""
    over = [t + i.latency for t, i in zip(start, graph.instructions, strict=True)]
    over += [start[v] + s + c for v, needs in enumerate(base.needs) for _, s, c in needs]
    over += [ceil_div(start[src] + d - start[dst], distance) for src, dst, d, distance in base.arcs if distance]
    return max([1, *over, *busy_cycles(graph).values()])
