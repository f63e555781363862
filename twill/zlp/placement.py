"""Iterative modulo scheduling (Rau 1994) over intervals of cycles, for warp groups that are chosen.

What is placed is an item: one instruction, or the same instruction of every row block, each block a
fixed time after the one before (a stagger, which is how ping-pong comes about).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from twill.graph.costed import CostedGraph
from twill.zlp.effort import Effort

Need = tuple[int, int, int]  # resource, cycles after the item's start, cycles
Arc = tuple[int, int, int, int]  # source item, target item, delay, distance
Wait = tuple[int, int]  # the other item, cycles from the start of the one to that of the other, at least
PLACEMENTS = 8  # for each item, before an order is given up
TIGHT = 4  # a resource is tight if less than a TIGHT-th of I stays free


@dataclass(frozen=True)
class Demands:
    """What each instruction occupies alone, and what it waits for, given the warp groups.

    Resources are the exclusive units and the warp groups (issue holds and spills of values that leave).
    """

    needs: tuple[tuple[Need, ...], ...]
    arcs: tuple[Arc, ...]
    resources: int

    def waits(self, ii: int) -> tuple[list[list[Wait]], list[list[Wait]]]:
        """What each item waits for at initiation interval `ii`, and what waits for it."""
        into: list[list[Wait]] = [[] for _ in self.needs]
        out: list[list[Wait]] = [[] for _ in self.needs]
        for src, dst, delay, distance in self.arcs:
            if src != dst:
                into[dst].append((src, delay - distance * ii))
                out[src].append((dst, delay - distance * ii))
        return into, out


def demands(graph: CostedGraph, groups: Sequence[int]) -> Demands:
    """The demands of `graph` in these warp groups."""
    number: dict[str | int, int] = {}
    needs: list[list[Need]] = []
    for instruction in graph.instructions:
        mine = [
            (number.setdefault(use.unit, len(number)), use.start, use.cycles)
            for use in instruction.uses
            if use.cycles and use.unit not in graph.interleaved
        ]
        if instruction.hold:
            mine.append((number.setdefault(groups[instruction.id], len(number)), 0, instruction.hold))
        needs.append(mine)
    for value in graph.values:
        home = groups[value.producer]
        if value.spill and any(groups[read.reader] != home for read in value.reads):
            ready = graph.instructions[value.producer].latency
            needs[value.producer].append((number.setdefault(home, len(number)), ready, value.spill))
    arcs = tuple(
        (e.src, e.dst, e.delay + (e.crossing if groups[e.src] != groups[e.dst] else 0), e.distance) for e in graph.edges
    )
    return Demands(tuple(tuple(n) for n in needs), arcs, len(number))


def staggered(base: Demands, bundles: Sequence[Sequence[int]], offset: Mapping[int, int]) -> Demands:
    """The demands of bundles of instructions; instruction v starts offset[v] after its bundle."""
    bundle = {v: k for k, members in enumerate(bundles) for v in members}
    needs = tuple(tuple((r, s + offset[v], c) for v in members for r, s, c in base.needs[v]) for members in bundles)
    arcs = tuple(
        (bundle[src], bundle[dst], delay + offset[src] - offset[dst], distance)
        for src, dst, delay, distance in base.arcs
    )
    return Demands(needs, arcs, base.resources)


def heights(base: Demands, ii: int) -> list[int] | None:
    """Longest path from each item to any other at initiation interval `ii`; None if a recurrence is longer."""
    height = [0] * len(base.needs)
    arcs = [(src, dst, delay - distance * ii) for src, dst, delay, distance in base.arcs]
    for _ in range(len(height) + 1):
        changed = False
        for src, dst, length in arcs:
            if height[dst] + length > height[src]:
                height[src], changed = height[dst] + length, True
        if not changed:
            return height
    return None


@dataclass
class ReservationTable:
    """The modulo reservation table: for each resource its busy intervals (start modulo I, cycles, item)."""

    base: Demands
    ii: int
    busy: list[list[tuple[int, int, int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.busy = [[] for _ in range(self.base.resources)]
        total = [0] * self.base.resources
        self.waiting: list[dict[int, list[int]]] = [{} for _ in range(self.base.resources)]
        for item, needs in enumerate(self.base.needs):
            for r, _, cycles in needs:
                total[r] += cycles
                self.waiting[r].setdefault(item, []).append(cycles)
        self.slack = [self.ii - cycles for cycles in total]
        self.tight = [spare * TIGHT <= self.ii for spare in self.slack]

    def sound(self) -> bool:
        """Whether every resource suffices in sum and no item meets itself modulo I."""
        if any(spare < 0 for spare in self.slack):
            return False
        ii = self.ii
        for needs in self.base.needs:
            for k, (r, s, c) in enumerate(needs):
                for other, s2, c2 in needs[:k]:
                    if other == r and ((s2 - s) % ii < c or (s - s2) % ii < c2):
                        return False
        return True

    def put(self, item: int, t: int) -> None:
        """Reserve what `item` needs from cycle t on."""
        for r, s, c in self.base.needs[item]:
            self.busy[r].append(((t + s) % self.ii, c, item))
            self.waiting[r].pop(item, None)

    def take(self, item: int) -> None:
        """Release what `item` has reserved."""
        for r, _, c in self.base.needs[item]:
            if item not in self.waiting[r]:
                self.busy[r] = [b for b in self.busy[r] if b[2] != item]
                self.waiting[r][item] = []
            self.waiting[r][item].append(c)

    def conflicts(self, item: int, t: int) -> set[int]:
        """The items in the way of `item` at t."""
        ii, found = self.ii, set()
        for r, s, c in self.base.needs[item]:
            for start, cycles, other in self.busy[r]:
                if (t + s - start) % ii < cycles or (start - t - s) % ii < c:
                    found.add(other)
        return found

    def first(self, item: int, low: int, high: int) -> int | None:
        """The earliest t in [low, high] at which `item` meets nothing."""
        ii, t = self.ii, low
        needs = [(s, c, self.busy[r]) for r, s, c in self.base.needs[item]]
        moved = True
        while moved and t <= high:
            moved = False
            for s, c, busy in needs:
                for start, cycles, _ in busy:
                    after = (t + s - start) % ii
                    if after < cycles:
                        t += cycles - after
                        moved = True
                    elif ii - after < c:
                        t += ii - after + cycles
                        moved = True
        return t if t <= high else None

    def last(self, item: int, low: int, high: int) -> int | None:
        """The latest t in [low, high] at which `item` meets nothing."""
        ii, t = self.ii, high
        needs = [(s, c, self.busy[r]) for r, s, c in self.base.needs[item]]
        moved = True
        while moved and t >= low:
            moved = False
            for s, c, busy in needs:
                for start, cycles, _ in busy:
                    after = (t + s - start) % ii
                    if after < cycles:
                        t -= after + c
                        moved = True
                    elif ii - after < c:
                        t -= c - (ii - after)
                        moved = True
        return t if t >= low else None

    def first_snug(self, item: int, low: int, high: int) -> int | None:
        """As `first`, but tight resources keep gaps that what is still to be placed can fill."""
        t = low
        tight = [need for need in self.base.needs[item] if self.tight[need[0]]]
        while True:
            free = self.first(item, t, high)
            if free is None:
                return None
            t = free
            step = max([0, *(self._loose(item, need, t) for need in tight)])
            if step == 0:
                return t
            t += step

    def _loose(self, item: int, need: Need, t: int) -> int:
        """0 if `need` at t leaves no gap too many in its resource, else cycles to the next better place."""
        r, s, c = need
        busy = self.busy[r]
        if not busy:
            return 0
        start = (t + s) % self.ii
        before = min((start - b - n) % self.ii for b, n, _ in busy)
        after = min((b - start - c) % self.ii for b, _, _ in busy)
        fill = 1
        for other, sizes in self.waiting[r].items():
            if other != item:
                for size in sizes:
                    fill |= fill << size
        waste = before - _filled(fill, before) + after - _filled(fill, after)
        if waste <= self.slack[r]:
            return 0
        higher = fill >> (before + 1)
        step = (higher & -higher).bit_length() if higher else self.ii
        return min(step, after) if after else step


def _filled(fill: int, gap: int) -> int:
    """The most cycles of a gap that sums in the bit set `fill` can occupy."""
    return (fill & ((1 << (gap + 1)) - 1)).bit_length() - 1


def place(
    base: Demands, ii: int, priority: Sequence[float], release: Sequence[int], effort: Effort, snug: bool
) -> list[int] | None:
    """A start for each item, or None after too many placements.

    priority: the largest goes first. release: earliest start that is tried for each item.
    """
    table = ReservationTable(base, ii)
    if not table.sound():
        return None
    count = len(base.needs)
    into, out = base.waits(ii)
    budget = PLACEMENTS * count
    start: dict[int, int] = {}
    previous: dict[int, int] = {}
    order = sorted(range(count), key=lambda k: (-priority[k], k))
    place_of = {item: at for at, item in enumerate(order)}
    waiting = [*range(count)]  # a heap of places in `order`
    while waiting:
        if budget == 0 or effort.spent():
            return None
        budget -= 1
        effort.left -= 1
        item = order[heappop(waiting)]
        low = release[item]
        for src, length in into[item]:
            if src in start:
                low = max(low, start[src] + length)
        t = table.first_snug(item, low, low + ii - 1) if snug else None
        if t is None:
            t = table.first(item, low, low + ii - 1)
        if t is None:
            t = low if item not in previous else max(low, previous[item] + 1)
        gone = table.conflicts(item, t)
        gone |= {dst for dst, length in out[item] if dst in start and start[dst] < t + length}
        for other in gone:
            table.take(other)
            del start[other]
            heappush(waiting, place_of[other])
        table.put(item, t)
        start[item] = previous[item] = t
    return [start[k] for k in range(count)]
