"""Tightening a schedule without changing its order.

An assignment decides, beside times, a combinatorial structure: warp groups, which of two uses of a unit comes
first and how many iterations apart, how deep each ring is, how many copies of each value are alive when
another is born. With the structure kept, every rule of docs/model.md is a difference constraint
t_v ≥ t_u + a + b·I, so the smallest I, and then the earliest start of every instruction (hence the smallest L),
are longest paths. The set of feasible I is an interval, which makes the smallest one a matter of bisection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product

from twill.graph.costed import CostedValue
from twill.smt.assignment import Assignment
from twill.smt.encoding import read_end


@dataclass(frozen=True)
class Interval:
    """[t_owner + offset, t_owner + offset + cycles) modulo I, of something that only one can hold at a time."""

    owner: int
    offset: int
    cycles: int


@dataclass(frozen=True)
class Structure:
    """The difference constraints of an assignment's structure.

    arcs: (src, dst, b) -> a, for t_dst ≥ t_src + a + b·I. least: no I below it can be asked for.
    """

    count: int
    arcs: Mapping[tuple[int, int, int], int]
    least: int

    def earliest(self, ii: int) -> list[int] | None:
        """The earliest start of every instruction, at least 0 each; None if `ii` is impossible in this structure."""
        out: list[list[tuple[int, int]]] = [[] for _ in range(self.count)]
        for (src, dst, turns), cycles in self.arcs.items():
            length = cycles + turns * ii
            if src != dst:
                out[src].append((dst, length))
            elif length > 0:
                return None
        start = [0] * self.count
        hops = [0] * self.count  # edges of the longest path so far; a path of `count` edges holds a cycle
        waiting = deque(range(self.count))
        queued = [True] * self.count
        while waiting:
            src = waiting.popleft()
            queued[src] = False
            begin = start[src]
            for dst, length in out[src]:
                if begin + length <= start[dst]:
                    continue
                start[dst] = begin + length
                hops[dst] = hops[src] + 1
                if hops[dst] >= self.count:
                    return None
                if not queued[dst]:
                    queued[dst] = True
                    waiting.append(dst)
        return start


def compacted(a: Assignment, least_ii: int, hazards: Iterable[tuple[int, int]] = ()) -> Assignment:
    """The assignment with the smallest I ≥ `least_ii`, and then the smallest L, that its structure allows.

    Registers and depths do not grow. Its starts begin at 0. hazards: instructions and MMAs that keep apart in one
    warp group (`twill.graph.mma_hazards`).
    """
    structure = structure_of(a, hazards)
    low, high = max(least_ii, structure.least), a.ii
    start = structure.earliest(high)
    if start is None or low > high:
        return a
    while low < high:
        middle = (low + high) // 2
        found = structure.earliest(middle)
        if found is None:
            low = middle + 1
        else:
            high, start = middle, found
    return replace(a, ii=high, start=tuple(start))


def structure_of(a: Assignment, hazards: Iterable[tuple[int, int]] = ()) -> Structure:
    """The structure of an assignment that breaks no rule. hazards: as for `compacted`."""
    found = _Arcs()
    for e in a.graph.edges:
        crossing = e.crossing if a.slot[e.src] != a.slot[e.dst] else 0
        found.demand(e.src, e.dst, e.delay + crossing, -e.distance)
    least = max([1, *_sums(a)])
    for crowd in chain(_exclusive(a), _quiet(a, hazards)):
        least = max([least, *(x.cycles for x in crowd)])
        for x, y in combinations(crowd, 2):
            turns = (a.start[y.owner] + y.offset - a.start[x.owner] - x.offset) // a.ii
            found.demand(x.owner, y.owner, x.cycles + x.offset - y.offset, turns)
            found.demand(y.owner, x.owner, y.cycles + y.offset - x.offset, -turns - 1)
    for value in a.graph.values:
        if value.space != "register" and value.storage is None:
            for end in _ends(a, value):
                found.demand(end.owner, value.producer, end.offset, end.distance - a.depth(value))
    for made in _made(a).values():
        for born, counted in product(made, made):
            _keep_count(a, counted, born, found)
    return Structure(len(a.start), found.arcs, least)


@dataclass
class _Arcs:
    """Arcs as `Structure` has them, of parallel ones the strongest."""

    arcs: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def demand(self, src: int, dst: int, cycles: int, turns: int) -> None:
        """t_dst ≥ t_src + cycles + turns·I."""
        key = (src, dst, turns)
        self.arcs[key] = max(self.arcs.get(key, cycles), cycles)


def _sums(a: Assignment) -> Iterator[int]:
    """Cycles of each interleaved unit."""
    for unit in a.graph.interleaved:
        yield sum(u.cycles for i in a.graph.instructions for u in i.uses if u.unit == unit)


def _exclusive(a: Assignment) -> Iterator[list[Interval]]:
    """What must be disjoint modulo I: the uses of each unit; holds and spills of each warp group."""
    units: dict[str, list[Interval]] = {}
    held: dict[int, list[Interval]] = {s.id: [] for s in a.used}
    for i in a.graph.instructions:
        for use in i.uses:
            if use.cycles and use.unit not in a.graph.interleaved:
                units.setdefault(use.unit, []).append(Interval(i.id, use.start, use.cycles))
        if i.hold:
            held[a.slot[i.id]].append(Interval(i.id, 0, i.hold))
    for x in a.graph.values:
        if x.spill and any(a.slot[r.reader] != a.slot[x.producer] for r in x.reads):
            moved = a.graph.instructions[x.producer].latency
            held[a.slot[x.producer]].append(Interval(x.producer, moved, x.spill))
    yield from units.values()
    yield from held.values()


def _quiet(a: Assignment, pairs: Iterable[tuple[int, int]]) -> Iterator[list[Interval]]:
    """Writers and MMAs of one warp group, pair by pair: the one is not held while the other is in flight."""
    instructions = a.graph.instructions
    for writer, asked in pairs:
        if a.slot[writer] == a.slot[asked]:
            yield [Interval(writer, 0, instructions[writer].hold), Interval(asked, 0, instructions[asked].latency)]


@dataclass(frozen=True)
class _End:
    """The instant `offset` cycles after the start of `owner`, `distance` iterations later."""

    owner: int
    offset: int
    distance: int


def _ends(a: Assignment, value: CostedValue) -> list[_End]:
    """The end of each read; of the result if nothing reads it."""
    instructions = a.graph.instructions
    ends = [_End(r.reader, read_end(instructions[r.reader]), r.distance) for r in value.reads]
    return ends or [_End(value.producer, instructions[value.producer].latency, 0)]


def _made(a: Assignment) -> dict[int, list[CostedValue]]:
    """The values that count against a warp group's registers for as long as they live, by slot."""
    made: dict[int, list[CostedValue]] = {}
    for x in a.graph.values:
        if x.space == "register" and x.storage is None and x.registers and x.reads:
            made.setdefault(a.slot[x.producer], []).append(x)
    return made


def _keep_count(a: Assignment, x: CostedValue, u: CostedValue, found: _Arcs) -> None:
    """No more copies of x are alive at the birth of u than now."""
    born, instant = a.birth(x), a.birth(u)
    x_offset, u_offset = born - a.start[x.producer], instant - a.start[u.producer]
    begun = (instant - born) // a.ii
    found.demand(u.producer, x.producer, u_offset - x_offset + 1, -begun - 1)
    over = (instant - a.death(x)) // a.ii
    for end in (*_ends(a, x), _End(x.producer, x_offset, 0)):
        found.demand(end.owner, u.producer, end.offset - u_offset, end.distance + over)
