"""Which sizes to check a warp program at: few and small, but every corner of its pipelines is reached.

Wanted are, of every loop, 0, 1, 2, and so many iterations as it has stages, or any ring or buffer has slots, one less
and one more, and so many that every ring goes round; of every comparison that a warp group makes of scalars, launches
in which its sides are equal and in which they differ by one, and of the conditions of a program instance every
combination (`twill.codegen.verify.abstract.guards`); of every access, tiles that it touches whole and in part: at sizes
of 0 all loops may run, and nothing is loaded or stored; of one launch, so many program instances on a persistent CTA
that a slot lost in each runs the ring dry, instances that begin at another slot than the first, and where warp groups
take them in turn, each as the last taker; of every size that adds instances, full tiles and a ragged last one; both
values of a flag; where a steady state changes once, both, and in full tiles; instances that find tiles in their rings,
and then some that do not; in a cluster, a pair that lacks its second, pairs that want the same tile, and others.
Candidates are the values of each size at which something changes; the cheapest ones that reach all are taken. Where a
condition says the same at all of these (a window of attention is longer than any of them), larger ones are looked for,
up to `FAR` iterations and `MOST_INSTANCES` instances, at which it says something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice

from twill.codegen.verify.abstract.derive import bounds_met, shapes, touched, touches_outside
from twill.codegen.verify.abstract.extent import ZeroStep, scouts, trips_of, walked_at
from twill.codegen.verify.abstract.guards import Conditions, said
from twill.codegen.verify.abstract.scalars import EvaluationScope, Scalar, evaluate, no_element
from twill.codegen.verify.abstract.scheduling import Index
from twill.codegen.verify.abstract.wanted import Wanted
from twill.kernel.problem import Case, ProblemTable
from twill.tile.interpret.sequential import descriptor_scalars, instances
from twill.tile.program import Loop, TileProgram

MOST_INSTANCES = 16
CONSTANT = 4096  # iterations of a loop whose count is no matter of sizes, at most
CONSTANT_INSTANCES = 64  # of a grid that no size makes smaller, at most
FAR = 40  # iterations
LARGEST = 1 << 16  # of a size
MOST = {"i1": 1, "i8": 127, "i16": 32767}  # of an argument of a short type
MOST_NUMBERS = 256  # in a table that says where programs do their work

Goal = tuple[object, ...]
Trips = list[tuple[int, ...]]
"""Iterations of each loop, for every program instance."""


@dataclass(frozen=True)
class SizeCandidate:
    """Sizes, what they reach, and about how much they cost."""

    sizes: Mapping[str, int]
    reaches: frozenset[Goal]
    cost: int


def choose(program: TileProgram, problem: ProblemTable, goal: Wanted) -> list[SizeCandidate]:
    """Cheap candidates that reach every goal that any candidate reaches."""
    search = _Search(program, problem, goal)
    candidates = [*search.candidates()]
    candidates += search.beyond(candidates)
    left = {reached for candidate in candidates for reached in candidate.reaches}
    chosen: list[SizeCandidate] = []
    while left:
        best = max(candidates, key=lambda candidate: (len(candidate.reaches & left) / candidate.cost, -candidate.cost))
        left -= best.reaches
        chosen.append(best)
    return needed(chosen) or candidates[:1]


def needed(chosen: Sequence[SizeCandidate]) -> list[SizeCandidate]:
    """Without those whose goals others reach, too: the dearest first."""
    retained = list(chosen)
    for one in sorted(chosen, key=lambda candidate: -candidate.cost):
        others = [candidate for candidate in retained if candidate is not one]
        if one.reaches <= frozenset[Goal]().union(*(candidate.reaches for candidate in others)):
            retained = others
    return retained


def three(grid: Sequence[int]) -> tuple[int, int, int]:
    """A launch grid along all axes."""
    x, y, z = (*grid, 1, 1, 1)[:3]
    return x, y, z


class _Search:
    def __init__(self, program: TileProgram, problem: ProblemTable, goal: Wanted) -> None:
        self.program, self.problem, self.goal = program, problem, goal
        self.loops = sum(isinstance(item, Loop) for item in program.body)
        axes = [axis for op in program.ops() if op.access for axis in op.access.axes]
        self.widest = max((axis.extent for axis in axes), default=1)
        self.base = {name: problem.unit(name) for name in problem.units}
        short = {one.name: MOST[one.type.element] for one in program.arguments if one.type.element in MOST}
        self.most = {name: most for name, most in short.items() if name in self.base}
        self.seen: dict[tuple[int, ...], Trips | None] = {}
        self.orders: dict[tuple[int, ...], Sequence[tuple[Index, Mapping[str, Scalar]]]] = {}
        self.cases: dict[tuple[int, ...], Case] = {}
        self.plain = replace(problem, tables={}) if problem.tables else None
        self.sayings: dict[tuple[int, ...], set[tuple[object, bool]]] = {}
        self.made: set[tuple[int, ...]] = set()
        least = self._instances(self.base)
        self.fewest = least if least <= CONSTANT_INSTANCES else 0
        # The least value of a size that adds instances, and not iterations.
        self.grown = {name: value for name in self.base if (value := self._grown(self.base, name))}
        self.tiles = {name: tile for name in self.base if goal.split_pipelines and (tile := self._tile(name))}

    def candidates(self) -> Iterator[SizeCandidate]:
        """Every size at the values at which something changes, from one, several and many instances on."""
        starts = [self.base, self._several(2), self._several(self.goal.instances * self.goal.ctas)]
        always = self.longest(self.base)  # iterations that no size takes from a loop of a constant count
        longest = max(2 * self.goal.most + 2, always if always <= CONSTANT else 0)
        only = None if self.base else self._candidate({}, longest)
        if only:
            yield only
        for start in starts:
            for name in self.base:
                for value in self._values(start, name):
                    made = self._candidate({**start, name: value}, longest)
                    if made:
                        yield made

    def beyond(self, near: Iterable[SizeCandidate]) -> Iterator[SizeCandidate]:
        """Larger sizes, around the least ones at which a condition says what it says at none of the near ones."""
        known = said(goal for candidate in near for goal in candidate.reaches)
        for name in self.base:
            most = _last(lambda sizes: self.longest(sizes) <= FAR, self._grows(name), LARGEST)
            for one in sorted(self._says(self._grows(name)(most)) - known, key=repr):
                less = self._silent(one, name, most)
                for units in (less, less + 1, less + 2):
                    made = self._candidate(self._grows(name)(units), FAR)
                    if made:
                        yield made

    def _silent(self, one: tuple[object, bool], name: str, most: int) -> int:
        """The most units of a size at which a condition does not say that."""
        return _last(lambda sizes: one not in self._says(sizes), self._grows(name), most)

    def _grows(self, name: str) -> Callable[[int], dict[str, int]]:
        """The base with so many units of a size."""
        return lambda units: {**self.base, name: units * self.base[name]}

    def _says(self, sizes: Mapping[str, int]) -> set[tuple[object, bool]]:
        """What the conditions of a launch say."""
        key = tuple(sizes[name] for name in self.base)
        if key not in self.sayings:
            self.sayings[key] = said(self._guard_goals(self.case(sizes))) if self.trips(sizes) else set()
        return self.sayings[key]

    def trips(self, sizes: Mapping[str, int]) -> Trips | None:
        """None: too many instances, a loop that makes no step, or a size that its type does not hold."""
        key = tuple(sizes[name] for name in self.base)
        if key not in self.seen:
            held = all(sizes[name] <= most for name, most in self.most.items())
            few = held and self._instances(sizes) <= max(MOST_INSTANCES * self.goal.ctas, self.fewest)
            try:
                case = self.case(sizes) if few else None
                self.seen[key] = trips_of(self.program, case.grid, self.scalars(case)) if case is not None else None
            except ZeroStep:
                self.seen[key] = None
        return self.seen[key]

    def case(self, sizes: Mapping[str, int]) -> Case:
        """What a launch at these sizes is."""
        key = tuple(sizes[name] for name in self.base)
        if key not in self.cases:
            self.cases[key] = self.problem.case(sizes)
        return self.cases[key]

    def _instances(self, sizes: Mapping[str, int]) -> int:
        """Program instances of a launch; where programs walk, visits, as far as they are worth counting."""
        case = self.case(sizes) if self.plain is None else self.plain.case(sizes)
        if self.program.walk is None:
            return math.prod(case.grid)
        if any(math.prod(case.shapes[name]) > MOST_NUMBERS for name in self.problem.tables):
            return LARGEST
        case = self.case(sizes)
        visits = islice(walked_at(self.program, case.grid, self.scalars(case)), CONSTANT_INSTANCES + 1)
        return sum(1 for _ in visits)

    def scalars(self, case: Case) -> Mapping[str, int | float]:
        """Of every scalar argument, descriptors' included."""
        return {**case.scalars, **descriptor_scalars(self.program, shapes(self.program, case))}

    def longest(self, sizes: Mapping[str, int]) -> int:
        """The most iterations of any loop and instance."""
        trips = self.trips(sizes)
        return LARGEST if trips is None else max((trip for instance in trips for trip in instance), default=0)

    def _candidate(self, sizes: Mapping[str, int], longest: int) -> SizeCandidate | None:
        """None: not such sizes, or they were a candidate before."""
        trips = self.trips(sizes)
        key = tuple(sizes[name] for name in self.base)
        if not trips or key in self.made or self.longest(sizes) > longest:
            return None
        self.made.add(key)
        case = self.case(sizes)
        scouted = scouts(self.program, case.grid, self.scalars(case))
        if touches_outside(self.program, case, scouted):
            return None
        mine = self._of_first(trips, case)
        reached = {
            *self._trip_goals(mine),
            *self._instance_goals(mine),
            *self._pair_goals(case),
            *self._reuse_goals(case),
            *self._guard_goals(case),
        }
        # A full tile and a ragged one of each size that adds instances, all at once: no other size clips them away.
        full = all(sizes[name] >= value for name, value in self.grown.items())
        if full and (not self.loops or all(any(instance) for instance in trips)):
            reached.add(("full",))
        if self.loops:
            reached |= touched(self.program, scouted)
        else:
            reached |= bounds_met(self.program, scouted)
        reached |= {("flag", name, sizes[name]) for name, most in self.most.items() if most == 1}
        reached |= {("ragged", name) for name, size in sizes.items() if size > 64 and size % 64}
        if not any(sizes[name] % tile for name, tile in self.tiles.items()):
            reached |= {*self._split_goals(case)}
        return SizeCandidate(dict(sizes), frozenset(reached), sum(6 + sum(instance) for instance in trips))

    def _of_first(self, trips: Trips, case: Case) -> Trips:
        """Those of the instances that one CTA works on, without those left out: the first of each pair in a cluster."""
        if self.goal.ctas == 1 and not (self.goal.leaves_out and self.problem.tables):
            return trips
        known = dict(zip(instances(three(case.grid)), trips, strict=True))
        return [known[index] for index, _ in self._order(case)]

    def _order(self, case: Case, rank: int = 0) -> Sequence[tuple[Index, Mapping[str, Scalar]]]:
        """The instances of a CTA of a launch: those of all, or of one of each cluster."""
        key = (*case.sizes.values(), rank)
        if key not in self.orders:
            self.orders[key] = self.goal.instances_of(three(case.grid), self.scalars(case), rank)
        return self.orders[key]

    def _pair_goals(self, case: Case) -> Iterator[Goal]:
        cluster = self.goal.cluster
        if cluster is None:
            return
        grid = three(case.grid)
        yield "pair", "half" if grid[cluster.axis] % self.goal.ctas else "whole"
        scalars = self.scalars(case) if self.goal.same else {}
        for index, names in self._order(case) if self.goal.same else ():
            scope = EvaluationScope(scalars, grid, index, no_element, dict(names))
            yield from (("same", expr, bool(evaluate(expr, scope))) for expr in self.goal.same)

    def _split_goals(self, case: Case) -> Iterator[Goal]:
        scalars = self.scalars(case) if self.goal.split_pipelines else {}
        for number, switch in enumerate(self.goal.split_pipelines):
            for early, late in switch.steps(scalars, case.grid):
                yield "early", number, min(early, 2)
                yield "late", number, min(late, 2)

    def _reuse_goals(self, case: Case) -> Iterator[Goal]:
        grid, scalars = three(case.grid), self.scalars(case) if self.goal.reuse_counters else {}
        order = [index for index, _ in self._order(case)] if self.goal.reuse_counters else []
        for counter in self.goal.reuse_counters:
            reused: set[str] = set()
            for name, there in counter.finds(order, grid, scalars):
                if there:
                    yield "stays", counter.group, name
                elif name in reused:
                    yield "left", counter.group, name
                (reused.add if there else reused.discard)(name)

    def _guard_goals(self, case: Case) -> Iterator[Goal]:
        grid, scalars = three(case.grid), self.scalars(case)
        conditions = Conditions(grid, scalars)
        orders = [self._order(case, rank) for rank in range(self.goal.ctas)]
        for number, one in enumerate(self.goal.outlines):
            for order in orders:
                conditions.outline(number, one, order)
        yield from conditions.found

    def _trip_goals(self, trips: Trips) -> Iterator[Goal]:
        for instance in trips:
            for number, trip in enumerate(instance):
                if trip in self.goal.trips and len(trips) >= self.goal.takers:
                    yield "trip", number, trip
                    if self.goal.thorough and len(trips) >= min(3, self.goal.instances):
                        yield "trip", number, trip, "several"

    def _instance_goals(self, trips: Trips) -> Iterator[Goal]:
        busy = [sum(instance) for instance in trips if any(instance)]
        if len(trips) > 1:
            yield ("instances", 2)
        if self.goal.takers > 1:
            yield "last taker", len(trips) % self.goal.takers
        if len(busy) >= self.goal.instances:
            yield "instances", "many"
        if len(busy) > 1 and min(busy[:2]) > 2:
            yield "instances", "long"
        for depth in self.goal.refilled:
            if sum(min(instance, default=0) > depth for instance in trips) > 1:
                yield "refilled", depth
        for depth in self.goal.depths:
            if any(total % depth for total in accumulate(busy[:-1])):
                yield "misaligned", depth

    def _grown(self, start: Mapping[str, int], name: str) -> int:
        """The least value of a size that adds instances and no iterations; 0 if there is none."""
        unit, before = self.problem.unit(name), self.trips(start) or []
        for units in _steps():
            sizes = {**start, name: start[name] + units * unit}
            trips = self.trips(sizes)
            if trips is None or self.longest(sizes) > self.longest(start):
                return 0
            if len(trips) > len(before):
                return sizes[name] if sizes[name] <= LARGEST else 0
        return 0

    def _tile(self, name: str) -> int:
        """How much of a size one more instance takes; 0 if the size adds none."""
        last = self._any_growth(self.base, name)
        if not last:
            return 0
        unit, few = self.problem.unit(name), len(self.trips(self.base) or ())
        low, high = 0, (last - self.base[name]) // unit
        while high - low > 1:
            middle = (low + high) // 2
            more = len(self.trips({**self.base, name: self.base[name] + middle * unit}) or ()) > few
            low, high = (low, middle) if more else (middle, high)
        return high * unit

    def _several(self, least: int) -> dict[str, int]:
        """The base, grown until it has so many instances and a full tile of every size; iterations last."""
        sizes = {**self.base}
        for name, value in self.grown.items():
            if self.trips({**sizes, name: value}):
                sizes[name] = value
        names = [*self.grown, *(name for name in self.base if name not in self.grown)]
        for name in names:
            while len(self.trips(sizes) or ()) < least:
                more = self._grown(sizes, name) or self._any_growth(sizes, name)
                if not more:
                    break
                sizes[name] = more
        return sizes

    def _any_growth(self, start: Mapping[str, int], name: str) -> int:
        """The least value of a size that adds instances, whatever else it does."""
        for units in _steps():
            sizes = {**start, name: start[name] + units * self.problem.unit(name)}
            trips = self.trips(sizes)
            if trips is None:
                return 0
            if len(trips) > len(self.trips(start) or ()):
                return sizes[name]
        return 0

    def _values(self, start: Mapping[str, int], name: str) -> Sequence[int]:
        """Values of a size: none, one unit, and the least and the largest one for each number of iterations."""
        unit = self.problem.unit(name)
        values = {0, unit, 2 * unit, 3 * unit}
        for trip in range(2, self.goal.most + 2):
            least = self._least(start, name, trip)
            if least is None:
                break
            values |= {least, least - unit}
        always = self.longest({**start, name: unit})
        if self._least(start, name, always + 1) is None:  # nothing else makes sizes grow to that of a tile
            values |= {-(-self.widest // unit) * unit, (self.widest // unit + 1) * unit}
        if name in self.tiles:
            values |= {self.tiles[name], 2 * self.tiles[name], 3 * self.tiles[name]}
        return sorted(values)

    def _least(self, start: Mapping[str, int], name: str, trip: int) -> int | None:
        """The least value of a size with so many iterations, by bisection; None if no value reaches them."""
        unit = self.problem.unit(name)

        def reached(units: int) -> bool:
            return self.longest({**start, name: units * unit}) >= trip

        high = 1
        while not reached(high):
            high *= 2
            if high * unit > LARGEST:
                return None
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reached(middle) else (middle, high)
        return high * unit


def _last(holds: Callable[[Mapping[str, int]], bool], sizes: Callable[[int], Mapping[str, int]], most: int) -> int:
    """The largest number whose sizes something holds of that holds of small ones, by bisection; 0 if of none."""
    step = 1
    while step <= most and holds(sizes(step)):
        step *= 2
    low, high = step // 2, min(step, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(sizes(middle)) else (low, middle)
    return low


def _steps() -> Iterator[int]:
    """Units to try: every number at first, then in strides."""
    yield from (*range(1, 17), 32, 64, 128, 256)
