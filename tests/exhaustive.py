"""An exhaustive solver of docs/model.md for tiny graphs: the optimum, by trying everything.

`optimum` takes I = 1, 2, ... For each I it enumerates the warp groups and, for each of them, the
rows that the rules modulo I allow (they depend on differences of rows only, so instruction 0 is
put in row 0 and the result moved to start at 0), and for these the stages.

Horizon. Only finitely many stages need a try. Take a valid plan, a weakly connected part of the
graph, and its instructions sorted by stage. If two neighbours in that order are more than
G = max(1 + ⌈(delay + crossing) / I⌉ over edges, largest distance) stages apart, let A be those
below the gap and B those above. An edge from B to A would need t_A + δ·I >= t_B (its delay is not
negative), a gap of at most δ, so there is none; every read has an edge, so nothing in A reads
a value of B. Moving B down by one stage keeps all rows, keeps every edge from A to B (they
ask for less than the gap), and shortens the lives of values of A that B reads. It stays valid, and
neither L nor anything else grows. So (n - 1)·G stages suffice within a part, and parts do not
depend on one another's stages at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.groupings import Grouping, groupings, registers_ever_fit
from tests.rules import (
    Plan,
    copies,
    crossing,
    least_budget,
    length,
    meet,
    memory,
    registers,
    resident_bytes,
    resident_registers,
)
from twill.graph.costed import CostedGraph, CostedValue, Read
from twill.machine.description import Context, Machine

FAR = -(10**9)  # no path


@dataclass(frozen=True)
class Optimum:
    """The best plan and budgets (per warp group id), and the objectives in their order."""

    ii: int
    copies: int
    crossing: int
    length: int
    registers: int
    plan: Plan
    budgets: tuple[int, ...]


@dataclass(frozen=True)
class Room:
    """Free bytes per memory; resident registers and context of every warp group."""

    free: dict[str, int]
    resident: tuple[int, ...]
    contexts: tuple[Context, ...]


def optimum(graph: CostedGraph, machine: Machine, most_ii: int) -> Optimum | None:
    """The lexicographic optimum (I, copies, crossing, L, registers), or None if no I <= most_ii is feasible."""
    if not memory_ever_fits(graph, machine):
        return None
    every = [g for g in groupings(graph, machine) if registers_ever_fit(graph, machine, g)]
    every.sort(key=lambda grouping: grouping.crossing)
    for ii in range(1, most_ii + 1):
        found = best_at(graph, machine, ii, every)
        if found is not None:
            return found
    return None


def best_at(graph: CostedGraph, machine: Machine, ii: int, every: list[Grouping]) -> Optimum | None:
    """The optimum of a fixed I, or None."""
    bases = []
    for grouping in every:
        paths = longest_paths(graph, grouping, ii)
        if paths is None:
            continue
        room = room_of(graph, machine, grouping)
        rows = [
            row
            for row in row_vectors(graph, grouping, ii)
            if lives_fit(graph, machine, grouping, room, ii, shortest_lives(graph, ii, row, paths))
        ]
        bases.append((grouping, paths, rows))
    if not any(exists(graph, machine, g, ii, row, paths) for g, paths, rows in bases for row in rows):
        return None
    most_copies = 0
    while True:
        most_copies += 1
        found: Optimum | None = None
        for grouping, paths, rows in bases:
            if found is not None and grouping.crossing > found.crossing:
                break
            for row in rows:
                longest = most_copies * ii if found is None else found.length
                for starts in starts_within(graph, ii, row, paths, longest):
                    found = better(
                        found, candidate(graph, machine, Plan(ii, starts, grouping.groups, grouping.contexts))
                    )
        if found is not None:
            return found


def better(one: Optimum | None, other: Optimum | None) -> Optimum | None:
    """The better of two by the objectives."""
    if one is None or other is None:
        return one or other
    values = [(o.ii, o.copies, o.crossing, o.length, o.registers) for o in (one, other)]
    return one if values[0] <= values[1] else other


def candidate(graph: CostedGraph, machine: Machine, plan: Plan) -> Optimum | None:
    """The plan with its least budgets, if it fits memory and registers."""
    budgets = budgets_of(graph, machine, plan)
    if budgets is None:
        return None
    return Optimum(
        ii=plan.ii,
        copies=copies(graph, plan),
        crossing=crossing(graph, plan.groups),
        length=length(graph, plan),
        registers=sum(budgets),
        plan=plan,
        budgets=budgets,
    )


def budgets_of(graph: CostedGraph, machine: Machine, plan: Plan) -> tuple[int, ...] | None:
    """The least budgets, or None if memory or registers do not suffice."""
    if any(memory(graph, plan, space) > machine.capacity(space) for space in ("shared", "tmem")):
        return None
    budgets = []
    total = 0
    for group, name in enumerate(plan.contexts):
        context = machine.context(name)
        budget = least_budget(registers(graph, plan, group), context, machine.register_file.granule)
        if budget > context.max_registers:
            return None
        budgets.append(budget)
        total += budget * context.threads
    return tuple(budgets) if total <= machine.register_file.registers.value else None


def memory_ever_fits(graph: CostedGraph, machine: Machine) -> bool:
    """Whether one slot for everything fits."""
    for space in ("shared", "tmem"):
        total = resident_bytes(graph, space)
        total += sum(v.bytes for v in graph.values if v.space == space and v.storage is None)
        if total > machine.capacity(space):
            return False
    return True


# -- rows ---------------------------------------------------------------------------------------


def longest_paths(graph: CostedGraph, grouping: Grouping, ii: int) -> list[list[int]] | None:
    """paths[u][v]: t_v - t_u is at least this much; None if a cycle of edges needs a larger I."""
    count = len(graph.instructions)
    paths = [[0 if u == v else FAR for v in range(count)] for u in range(count)]
    for e in graph.edges:
        wait = e.delay + (e.crossing if grouping.groups[e.src] != grouping.groups[e.dst] else 0)
        paths[e.src][e.dst] = max(paths[e.src][e.dst], wait - e.distance * ii)
    for k in range(count):
        for u in range(count):
            for v in range(count):
                if paths[u][k] > FAR and paths[k][v] > FAR:
                    paths[u][v] = max(paths[u][v], paths[u][k] + paths[k][v])
    return None if any(paths[u][u] > 0 for u in range(count)) else paths


def row_vectors(graph: CostedGraph, grouping: Grouping, ii: int) -> list[tuple[int, ...]]:
    """Rows that capacity, concurrency and spills allow, instruction 0 in row 0."""
    count = len(graph.instructions)
    groups = grouping.groups
    leaving = [
        v
        for v in graph.values
        if v.spill and any(groups[read.reader] != groups[v.producer] for read in v.reads)
    ]  # fmt: skip
    # What an instruction occupies, from its issue: (place, offset, cycles). A spill window meets
    # holds and spills; a hold meets holds and spills: they are one place.
    busy: list[list[tuple[str, int, int]]] = []
    for instruction in graph.instructions:
        mine = [(use.unit, use.start, use.cycles) for use in instruction.uses if use.unit not in graph.interleaved]
        place = f"group {groups[instruction.id]}"
        mine.append((place, 0, instruction.hold))
        mine += [(place, instruction.latency, v.spill) for v in leaving if v.producer == instruction.id]
        busy.append(mine)

    def agree(u: int, v: int, difference: int) -> bool:
        return not any(a[0] == b[0] and meet(a[1], a[2], difference + b[1], b[2], ii) for a in busy[u] for b in busy[v])

    for unit in graph.interleaved:
        if sum(use.cycles for instruction in graph.instructions for use in instruction.uses if use.unit == unit) > ii:
            return []
    for number in range(count):
        pairs = [(a, b) for i, a in enumerate(busy[number]) for b in busy[number][:i]]
        if any(a[2] > ii for a in busy[number]):
            return []
        if any(a[0] == b[0] and meet(a[1], a[2], b[1], b[2], ii) for a, b in pairs):
            return []
    allowed = [[[agree(u, v, d) for d in range(ii)] for v in range(count)] for u in range(count)]
    partial: list[tuple[int, ...]] = [(0,)]
    for number in range(1, count):
        partial = [
            (*rows, row)
            for rows in partial
            for row in range(ii)
            if all(allowed[u][number][(row - rows[u]) % ii] for u in range(number))
        ]
    return partial


def room_of(graph: CostedGraph, machine: Machine, grouping: Grouping) -> Room:
    """What a grouping leaves for the values that come and go."""
    free = {space: machine.capacity(space) - resident_bytes(graph, space) for space in ("shared", "tmem")}
    count = len(grouping.contexts)
    resident = tuple(resident_registers(graph, grouping.groups, group) for group in range(count))
    return Room(free, resident, tuple(machine.context(name) for name in grouping.contexts))


def lives_fit(graph: CostedGraph, machine: Machine, grouping: Grouping, room: Room, ii: int, lives: list[int]) -> bool:
    """Whether memory and registers might suffice if value i lived at least lives[i] cycles.

    A group's registers peak at no less than their mean over I cycles, and than the copies of one value.
    """
    free = dict(room.free)
    work = [0] * len(room.resident)
    most = [0] * len(room.resident)
    for value, life in zip(graph.values, lives, strict=True):
        if value.storage is not None:
            continue
        if value.space != "register":
            free[value.space] -= value.bytes * max(1, -(-life // ii))
            continue
        group = grouping.groups[value.producer]
        work[group] += value.registers * life
        most[group] = max(most[group], value.registers * -(-life // ii))
    if min(free.values()) < 0:
        return False
    total = 0
    for context, resident, mean, single in zip(room.contexts, room.resident, work, most, strict=True):
        need = resident + max(single, -(-mean // ii))
        budget = least_budget(need, context, machine.register_file.granule)
        if budget > context.max_registers:
            return False
        total += budget * context.threads
    return total <= machine.register_file.registers.value


def shortest_lives(graph: CostedGraph, ii: int, rows: tuple[int, ...], paths: list[list[int]]) -> list[int]:
    """Lower bounds on death - birth of all values."""
    return [shortest_life(graph, ii, rows, paths, value) for value in graph.values]


def shortest_life(
    graph: CostedGraph, ii: int, rows: tuple[int, ...], paths: list[list[int]], value: CostedValue
) -> int:
    """A lower bound on death - birth."""
    producer = graph.instructions[value.producer]
    if not value.reads:
        return 0 if value.space == "register" else producer.latency
    life = 0
    for read in value.reads:
        least = paths[value.producer][read.reader]
        if least > FAR:
            apart = least + (rows[read.reader] - rows[value.producer] - least) % ii
            life = max(life, apart + read.distance * ii + outlasts(graph, value, read))
    return life


def outlasts(graph: CostedGraph, value: CostedValue, read: Read) -> int:
    """What to add to the time between the issues of producer and reader to have the value's life."""
    producer, reader = graph.instructions[value.producer], graph.instructions[read.reader]
    until = reader.latency if reader.asynchronous else reader.hold
    return until - (0 if producer.asynchronous or value.space != "register" else producer.hold)


# -- stages -------------------------------------------------------------------------------------


def starts_within(
    graph: CostedGraph, ii: int, rows: tuple[int, ...], paths: list[list[int]], longest: int
) -> Iterator[tuple[int, ...]]:
    """All starts with these rows (up to moving everything) and L <= longest, moved to begin at 0."""
    latency = [i.latency for i in graph.instructions]

    def extend(times: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        number = len(times)
        if number == len(latency):
            base = min(times)
            yield tuple(t - base for t in times)
            return
        low = max(times) - longest  # times spread by less than L, or latency is 0
        high = min(times) + longest - latency[number]
        for u, t in enumerate(times):
            low = max(low, t + paths[u][number], t + latency[u] - longest)
            if paths[number][u] > FAR:
                high = min(high, t - paths[number][u])
        first = low + (rows[number] - low) % ii
        for start in range(first, high + 1, ii):
            yield from extend((*times, start))

    if latency[0] <= longest:
        yield from extend((0,))


def exists(
    graph: CostedGraph, machine: Machine, grouping: Grouping, ii: int, rows: tuple[int, ...], paths: list[list[int]]
) -> bool:
    """Whether a plan with these rows and warp groups exists, whatever its length.

    Stages are as far apart as the horizon (see the top); unconnected parts are not moved against
    one another. Values live at least as long as the instructions placed so far make them.
    """
    count = len(rows)
    gap = max([1, *(1 + -(-(e.delay + e.crossing) // ii) for e in graph.edges), *(e.distance for e in graph.edges)])
    span = ((count - 1) * gap + 1) * ii
    part = list(range(count))
    for _ in range(count):
        for e in graph.edges:
            part[e.src] = part[e.dst] = min(part[e.src], part[e.dst])
    room = room_of(graph, machine, grouping)
    least = shortest_lives(graph, ii, rows, paths)

    def lives(times: tuple[int, ...]) -> list[int]:
        result = []
        for value, life in zip(graph.values, least, strict=True):
            for read in value.reads:
                if max(value.producer, read.reader) < len(times):
                    apart = times[read.reader] - times[value.producer] + read.distance * ii
                    life = max(life, apart + outlasts(graph, value, read))
            result.append(life)
        return result

    def extend(times: tuple[int, ...]) -> bool:
        if not lives_fit(graph, machine, grouping, room, ii, lives(times)):
            return False
        number = len(times)
        if number == count:
            base = min(times)
            plan = Plan(ii, tuple(t - base for t in times), grouping.groups, grouping.contexts)
            return budgets_of(graph, machine, plan) is not None
        together = [(u, t) for u, t in enumerate(times) if part[u] == part[number]]
        if not together:
            return extend((*times, rows[number]))
        low = max([max(t for _, t in together) - span, *(t + paths[u][number] for u, t in together)])
        tops = [t - paths[number][u] for u, t in together if paths[number][u] > FAR]
        high = min([min(t for _, t in together) + span, *tops])
        first = low + (rows[number] - low) % ii
        return any(extend((*times, start)) for start in range(first, high + 1, ii))

    return extend((0,))
