"""Which of two kernels runs, the emitted one or Triton's, with the times that say so; as it is kept in the store."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Side = Literal["emitted", "triton"]
SCHEMA = "twill.verdict/2"
MARGIN = 0.01  # by which a kernel must be faster to have another's launches: two runs of one kernel differ by as much


@dataclass(frozen=True)
class Verdict:
    """emitted, triton: microseconds of single launches on the GPU. where: the GPU and its driver."""

    emitted: tuple[float, ...]
    triton: tuple[float, ...]
    where: str

    @property
    def side(self) -> Side:
        """Who runs."""
        limit = statistics.median(self.triton) * (1 - MARGIN)
        return "emitted" if statistics.median(self.emitted) <= limit else "triton"

    def text(self) -> str:
        """For people."""
        emitted, triton = statistics.median(self.emitted), statistics.median(self.triton)
        count = min(len(self.emitted), len(self.triton))
        return f"{emitted:.1f} µs emitted, {triton:.1f} µs as Triton's (medians of {count} launches, {self.where})"

    def data(self) -> bytes:
        """As it is stored."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}).encode()


@dataclass(frozen=True)
class PredictedVerdict:
    """Triton's kernel runs because the model says that the emitted one is clearly slower; nothing was measured, and
    nothing is stored. words: both figures."""

    words: str
    side: Side = "triton"

    def text(self) -> str:
        """For people."""
        return self.words


def read_verdict(data: bytes, where: str) -> Verdict | None:
    """What `Verdict.data` wrote; None for anything else, and for what was measured elsewhere."""
    try:
        document = json.loads(data)
        times = [tuple(float(time) for time in document[side]) for side in ("emitted", "triton")]
        known = document["schema"] == SCHEMA and document["where"] == where
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    good = known and all(side and all(0 < time < float("inf") for time in side) for side in times)
    return Verdict(times[0], times[1], where) if good else None


@dataclass(frozen=True)
class SizeClass:
    """Launches that are alike in size: every number of theirs needs as many bits as the other's. example: of the launch
    that was the first of its class, for people."""

    bits: tuple[int, ...]
    example: str

    @property
    def name(self) -> str:
        """Of its entry in the store."""
        return "verdict." + "-".join(map(str, self.bits))


def size_class(grid: Sequence[int], bound: Mapping[str, Any]) -> SizeClass:
    """Of a launch on `grid` with these arguments, by name: sizes of descriptors and numbers count, in that order."""
    numbers = {"grid": _product(grid)}
    for name, value in bound.items():
        if type(value) is int:
            numbers[name] = value
        elif hasattr(value, "block_shape"):
            numbers.update((f"{name}.shape[{axis}]", int(size)) for axis, size in enumerate(value.shape))
    text = ", ".join(f"{name}={number}" for name, number in numbers.items())
    return SizeClass(tuple(number.bit_length() for number in numbers.values()), text)


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= int(size)
    return product
