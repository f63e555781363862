"""A loop's schedule unrolled in time: which iteration issues what at which cycle.

The checker does not reason modulo I. It lays out so many iterations that every overlap the
endless loop can show has shown itself, and looks at them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from twill.graph.costed import CostedGraph, CostedValue, Instruction

# Intervals laid out per loop. Real schedules have thousands; a document edited into millions
# is refused instead of simulated for minutes.
MOST_INTERVALS = 500_000


@dataclass(frozen=True)
class Placed:
    """An instruction, its start in iteration 0 (cycles) and its warp group's id."""

    instruction: Instruction
    start: int
    group: int


class Busy(NamedTuple):
    """`holder` of iteration `iteration` occupies something in the cycles [begin, end)."""

    begin: int
    end: int
    holder: int  # instruction id, or value id where values are laid out
    iteration: int


@dataclass(frozen=True)
class Timeline:
    """`iterations` iterations of one loop; iteration i starts i * ii cycles after the first."""

    loop: int
    graph: CostedGraph
    ii: int
    placed: dict[int, Placed]
    iterations: int

    def start(self, instruction: int, iteration: int) -> int:
        """The cycle at which `instruction` of `iteration` issues."""
        return self.placed[instruction].start + iteration * self.ii

    def instruction(self, number: int) -> Instruction:
        """The instruction with id `number`."""
        return self.placed[number].instruction

    def group(self, number: int) -> int:
        """The warp group that issues instruction `number`."""
        return self.placed[number].group

    def made(self) -> Iterator[CostedValue]:
        """The values whose producer is scheduled."""
        return (value for value in self.graph.values if value.producer in self.placed)

    def readers(self, value: CostedValue) -> tuple[int, ...]:
        """Ids of the scheduled instructions that read `value`."""
        return tuple(read.reader for read in value.reads if read.reader in self.placed)

    def lifetime(self, value: CostedValue, iteration: int) -> tuple[int, int]:
        """Birth and death (cycles) of the copy of `value` that `iteration` makes: "Liveness"."""
        producer = self.instruction(value.producer)
        issue = self.start(value.producer, iteration)
        in_register = value.space == "register"
        birth = issue if producer.asynchronous or not in_register else issue + producer.hold
        if not value.reads:
            return birth, birth if in_register else issue + producer.latency
        death = birth
        for read in value.reads:
            if read.reader not in self.placed:
                continue
            reader = self.instruction(read.reader)
            busy = reader.latency if reader.asynchronous else reader.hold
            death = max(death, self.start(read.reader, iteration + read.distance) + busy)
        return birth, death

    def spills(self, value: CostedValue) -> bool:
        """Whether `value` has to leave its warp group through memory, at a cost."""
        home = self.group(value.producer)
        return value.spill > 0 and any(self.group(reader) != home for reader in self.readers(value))


def unroll(loop: int, graph: CostedGraph, ii: int, placed: dict[int, Placed]) -> Timeline | None:
    """The timeline of as many iterations as can meet one another, and two more.

    Whatever two iterations share of a resource, they are at most ⌈span / I⌉ apart, where span
    is the time from the first thing an iteration does to the death of its last value. None if
    that is too long to lay out. `ii` ≥ 1.
    """
    first = Timeline(loop, graph, ii, placed, 1)
    begin, end = 0, 1
    for item in placed.values():
        work = item.instruction
        ends = [work.latency, work.hold, *(use.start + use.cycles for use in work.uses)]
        begin = min(begin, item.start)
        end = max(end, item.start + max(ends))
    for value in first.made():
        work = first.instruction(value.producer)
        end = max(end, first.lifetime(value, 0)[1], first.start(value.producer, 0) + work.latency + value.spill)
    distances = [edge.distance for edge in graph.edges]
    distances += [read.distance for value in graph.values for read in value.reads]
    iterations = -(-(end - begin) // ii) + max(distances, default=0) + 2
    per_iteration = sum(len(item.instruction.uses) + 2 for item in placed.values()) + 2 * len(graph.values)
    if iterations * max(1, per_iteration) > MOST_INTERVALS:
        return None
    return Timeline(loop, graph, ii, placed, iterations)


def collisions(intervals: list[Busy]) -> Iterator[tuple[Busy, Busy]]:
    """Pairs of intervals that overlap: every interval that begins while another still holds the
    place, with the one that would hold it longest. Empty intervals hold nothing."""
    holding: Busy | None = None
    for interval in sorted(intervals):
        if interval.end <= interval.begin:
            continue
        if holding is not None and interval.begin < holding.end:
            yield holding, interval
        if holding is None or interval.end > holding.end:
            holding = interval


def first_of_each(pairs: Iterator[tuple[Busy, Busy]]) -> Iterator[tuple[Busy, Busy]]:
    """Of the collisions between the same two holders, which every iteration repeats, the first."""
    seen: set[tuple[int, int]] = set()
    for one, other in pairs:
        key = (min(one.holder, other.holder), max(one.holder, other.holder))
        if key not in seen:
            seen.add(key)
            yield one, other
