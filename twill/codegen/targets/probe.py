"""One microbenchmark: a kernel that is launched for two counts of rounds, and what its cycles are divided by."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from twill.codegen.warp.layout import THREADS


@dataclass(frozen=True)
class Probe:
    """A kernel `kernel` of microbenchmarks/`file`, with parameters (cycles, memory, count, *numbers,
    and a tensor map if `tensor`).

    steps: of one round, each of which the result is for. counts: rounds of the short and the long launch. ctas: one, or
    one on every SM. shared: bytes of dynamic shared memory. tensor: element type of the map, boxes of numbers[0] rows.
    spread: the largest (95th - 5th percentile) / median that is believed.
    """

    name: str
    file: str
    kernel: str
    what: str
    steps: int
    counts: tuple[int, int]
    threads: int = THREADS
    ctas: Literal["one", "all"] = "one"
    shared: int = 0
    numbers: tuple[int, ...] = (1,)
    tensor: Literal["", "bf16", "f32"] = ""
    spread: float = 0.05

    def cycles(self, pair: Sequence[int]) -> float:
        """Cycles of one step, from those of a short and a long launch: what happens once cancels."""
        short, long = pair
        return (long - short) / ((self.counts[1] - self.counts[0]) * self.steps)


@dataclass(frozen=True)
class Sample:
    """Cycles of a step over the repeats: the median and the 5th and 95th percentiles."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """(high - low) / median; infinite if there is nothing to divide by."""
        return (self.high - self.low) / self.median if self.median > 0 else float("inf")


def sample(values: Sequence[float]) -> Sample:
    """Of at least one value."""
    ordered = sorted(values)
    return Sample(statistics.median(ordered), percentile(ordered, 0.05), percentile(ordered, 0.95))


def percentile(ordered: Sequence[float], part: float) -> float:
    """Linear between neighbours."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
