"""A quick schedule: the upper bound that the exact search starts from, and a baseline.

Warp groups come first (`twill.zlp.grouping`), then iterative modulo scheduling
(`twill.zlp.placement`), then lifetimes are shortened until rings and registers fit
(`twill.zlp.memory_use`). Whatever is returned satisfies every rule of `docs/model.md`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.zlp.effort import Effort, unending
from twill.zlp.grouping import Groups, group_load, proposals
from twill.zlp.largest import largest_ii
from twill.zlp.memory_use import MemoryUse
from twill.zlp.placement import Demands, ReservationTable, demands, heights, place, staggered
from twill.zlp.resource import busy_cycles
from twill.zlp.slots import slots_of

FACTORS = (1.0, 1.02, 1.06, 1.12, 1.22, 1.35, 1.6, 2.0, 2.5, 3.0, 4.0)
LEISURE = (2.0, 3.0, 4.0)  # of the least I, where a schedule of any I is wanted
EFFORT = 2600  # placements, for all of a search
LARGE = 32  # instructions above which each may take
EFFORT_EACH = 300  # placements
SHARE = 5  # one part in SHARE of what is left may go into one I
NOISE = (0.0, 0.0, 0.0, 0.5, 0.25, 1.0)  # of the largest height, added to priorities: attempt by attempt
SWEEPS = 2  # of all instructions, when lifetimes are shortened


@dataclass(frozen=True)
class HeuristicSchedule:
    """start[v] in cycles (the earliest is 0) and group[v], a slot, by instruction id.

    Slots are numbered as by `twill.zlp.slots`. budgets: registers per thread of every
    slot, 0 if it is not used.
    """

    ii: int
    start: tuple[int, ...]
    group: tuple[int, ...]
    budgets: tuple[int, ...]


def heuristic_schedule(
    graph: CostedGraph, machine: Machine, lower_bound: int, tries: int = 24, over: Callable[[], bool] = unending,
    at_most: int | None = None,
) -> HeuristicSchedule | None:  # fmt: skip
    """A valid schedule of small I, or None if none was found.

    lower_bound: a proven lower bound on I, where the search begins. tries: orders tried for each I and
    choice of warp groups. over: whether the time has ended; what was found by then is the answer. Where it never ends,
    the same arguments give the same schedule. at_most: the largest I that is of use (None: any is); where the schedule
    has more, there may be none.
    """
    if not graph.instructions:
        return None
    search = _Search(graph, machine, max(1, lower_bound), tries, over)
    if not any(choice.memory_use.holds_operands() for choice in search.choices):
        return None
    failed = search.least - 1
    for ii in search.intervals():
        if at_most is not None and failed >= at_most:
            return None
        found = search.at(ii)
        if found is not None:
            return search.between(failed, found, max(1, lower_bound // 200))
        failed = ii
    return search.at_leisure()


@dataclass(frozen=True)
class _Choice:
    """Warp groups with what follows from them; no I below `floor` is possible with them."""

    groups: Groups
    memory_use: MemoryUse
    demands: Demands
    floor: int


@dataclass
class _Search:
    graph: CostedGraph
    machine: Machine
    least: int
    tries: int
    over: Callable[[], bool] = unending

    def __post_init__(self) -> None:
        graph = self.graph
        self.slots = slots_of(self.machine)
        self.blocks = max([1, *(i.block + 1 for i in graph.instructions)])
        self.twins = _twins(graph, self.blocks)
        count = len(graph.instructions)
        self.effort = EFFORT if count <= LARGE else EFFORT_EACH * count
        self.allowed = Effort(0)
        self.least = max([self.least, *busy_cycles(graph).values()])
        self.most = max(self.least, largest_ii(graph))
        groups = proposals(graph, self.machine, self.least, self.over)
        self.choices = [c for g in groups if not self.over() and (c := self.choice(g)) is not None]

    def choice(self, groups: Groups) -> _Choice | None:
        """`groups` with their floor; None if they are impossible at any I."""
        memory_use = MemoryUse(self.graph, self.machine, self.slots, groups)
        if not memory_use.possible():
            return None
        base = demands(self.graph, groups)
        low, high = max(self.least, *group_load(self.graph, groups).values()), self.most
        if low > high or heights(base, high) is None:
            return None
        if heights(base, low) is not None:
            high = low
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if heights(base, middle) is not None else (middle + 1, high)
        return _Choice(groups, memory_use, base, low)

    def intervals(self) -> list[int]:
        """Values of I to try, rising: by factors, and where another choice of warp groups becomes possible."""
        if not self.choices:
            return []
        first = min(choice.floor for choice in self.choices)
        found = {round(first * factor) for factor in FACTORS} | {choice.floor for choice in self.choices}
        found |= {first + step for step in (1, 2, 3)} if first < 100 else set()
        rising: list[int] = []
        for ii in sorted(ii for ii in found | {self.most} if first <= ii <= self.most):
            if not rising or ii * 200 >= rising[-1] * 201:
                rising.append(ii)
        return rising

    def between(self, failed: int, found: HeuristicSchedule, step: int) -> HeuristicSchedule:
        """A schedule of less than I of `found` where there is one, but more than `failed`, at which none was found."""
        while found.ii - failed > step and not self.over():
            middle = (failed + found.ii) // 2
            better = self.at(middle)
            if better is None:
                failed = middle
            else:
                found = better
        return found

    def at_leisure(self) -> HeuristicSchedule | None:
        """With new effort, what is found at intervals so large that little overlaps: most of the effort may have gone
        into small ones, at which registers or rings are too few."""
        first = min((choice.floor for choice in self.choices), default=self.most)
        for factor in LEISURE:
            self.effort = SHARE * EFFORT_EACH * len(self.graph.instructions)
            found = self.at(min(self.most, round(factor * first)))
            if found is not None:
                return self.between(first, found, max(1, first // 20))
        return None

    def at(self, ii: int) -> HeuristicSchedule | None:
        """A schedule with initiation interval `ii`, or None."""
        if self.over():
            return None
        granted = min(self.effort, max(self.effort // SHARE, 8 * len(self.graph.instructions)))
        self.allowed = Effort(granted, self.over)
        try:
            return self._with_effort(ii)
        finally:
            self.effort -= granted - self.allowed.left

    def _with_effort(self, ii: int) -> HeuristicSchedule | None:
        """Every order for each choice of warp groups in turn, so that no choice takes all of the effort."""
        pending = [(c, self._starts(c.demands, ii)) for c in self.choices if c.floor <= ii]
        while pending and not self.allowed.spent():
            for choice, starts in tuple(pending):
                if self.over():
                    return None
                start = next(starts, None)
                if start is None:
                    pending.remove((choice, starts))
                elif start:
                    found = self._settled(choice.demands, choice.memory_use, choice.groups, start, ii)
                    if found is not None:
                        return found
        return None

    def _settled(
        self, base: Demands, memory_use: MemoryUse, groups: Groups, start: list[int], ii: int
    ) -> HeuristicSchedule | None:
        """The schedule with lifetimes shortened until it fits, or None."""
        for _ in range(SWEEPS):
            for late in (True, False):
                if self.over():
                    return None
                self.allowed.left -= len(start)
                _shorten(base, memory_use, start, ii, late)
                budgets = memory_use.budgets(start, ii)
                if budgets is not None:
                    first = min(start)
                    every = tuple(budgets.get(slot, 0) for slot in range(len(self.slots)))
                    return HeuristicSchedule(ii, tuple(t - first for t in start), groups, every)
        return None

    def _starts(self, base: Demands, ii: int) -> Iterator[list[int]]:
        """Starts that satisfy dependences and resources, by different orders; an empty list for a failed order."""
        count = len(self.graph.instructions)
        step = ii // self.blocks
        lag = {i.id: max(0, i.block) * step for i in self.graph.instructions}
        for attempt in range(self.tries):
            together = attempt % 3 != 1 and len(self.twins) < count
            bundles = self.twins if together else [[v] for v in range(count)]
            offset = lag if together else dict.fromkeys(range(count), 0)
            problem = staggered(base, bundles, offset) if together else base
            tall = heights(problem, ii)
            if tall is None:
                yield []
                continue
            rng = random.Random(attempt)
            noise = NOISE[attempt % len(NOISE)] * max(1, max(tall))
            priority = [h + noise * rng.random() for h in tall]
            spread = attempt % 2 == 1
            release = [lag[members[0]] if spread and not together else 0 for members in bundles]
            placed = place(problem, ii, priority, release, self.allowed, snug=attempt % 4 != 2)
            start = [0] * count
            for members, t in zip(bundles, placed or (), strict=placed is not None):
                for v in members:
                    start[v] = t + offset[v]
            yield start if placed is not None else []


def _twins(graph: CostedGraph, blocks: int) -> list[list[int]]:
    """Bundles of the instructions that correspond in every row block; each alone if blocks differ."""
    alone = [[i.id] for i in graph.instructions]
    rows = [[i for i in graph.instructions if i.block == b] for b in range(blocks)]
    if blocks == 1 or len({len(row) for row in rows}) != 1:
        return alone
    bundles = [[i.id] for i in graph.instructions if i.block < 0]
    for twins in zip(*rows, strict=True):
        if len({(i.op, i.uses, i.latency, i.hold) for i in twins}) != 1:
            return alone
        bundles.append([i.id for i in twins])
    return bundles


def _shorten(base: Demands, memory_use: MemoryUse, start: list[int], ii: int, late: bool) -> None:
    """Move instructions where the values they make and read live less, one at a time, in place.

    late: begin at the last and prefer later starts among equally good ones; else the reverse.
    """
    graph = memory_use.graph
    table = ReservationTable(base, ii)
    for v, t in enumerate(start):
        table.put(v, t)
    touching, weight = memory_use.touching, memory_use.weights
    into, out = base.waits(ii)
    for v in sorted(range(len(graph.instructions)), key=lambda k: (start[k], k), reverse=late):
        now = start[v]
        low = max((start[src] + length for src, length in into[v]), default=now)
        high = min((start[dst] - length for dst, length in out[v]), default=now)
        if low >= high:
            continue

        def cost(t: int, v: int = v) -> float:
            start[v] = t
            lives = ((weight[x.id], *memory_use.life(x, start, ii)) for x in touching[v])
            return sum(w * (death - birth) for w, birth, death in lives)

        table.take(v)
        best, best_cost = now, cost(now)
        options = (table.first(v, low, now), table.last(v, now, high))
        for option in options:
            if option is None or option == now:
                continue
            lived = cost(option)
            if lived < best_cost - 1e-9 or (lived < best_cost + 1e-9 and (option > best) == late):
                best, best_cost = option, lived
        start[v] = best
        table.put(v, best)
