"""Facts that a warp program decides and that can be read back from what was compiled, in one wording for both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

COUNTS = 16  # values of a counter for which slots and parities are compared
BUDGETS = "warp_specialize: registers of the partitions behind the first: "


@dataclass(frozen=True, order=True)
class ModuleFact:
    """line: of the module. said: e.g. "mbarrier.expect: 16384 bytes". kernel: line of the Triton kernel, or 0."""

    line: int
    said: str
    kernel: int = field(default=0, compare=False)


def inits(counts: Sequence[int]) -> str:
    """Barriers that are initialized in one line, in order, by the arrivals that they count."""
    said = str(counts[0]) if len(set(counts)) == 1 else " ".join(map(str, counts))
    return f"mbarrier.init: {said} arrivals, {len(counts)} slots"


def ring_use(use: str, barrier: str, depth: int, flipped: bool) -> str:
    """A barrier of a ring, as the counter of its slots passes them. use: "wait", "arrive", "expect", or "commit" of
    products. flipped: whether a fresh slot may be passed."""
    parity = tuple(count // depth % 2 ^ flipped for count in range(COUNTS)) if use == "wait" else ()
    return barrier_use(use, barrier, tuple(count % depth for count in range(COUNTS)), parity)


def barrier_use(use: str, barrier: str, slots: Sequence[int], parity: Sequence[int]) -> str:
    """Slots and parities of the first passes."""
    at = f" at parity {''.join(map(str, parity))}" if parity else ""
    return f"mbarrier.{use}: {barrier}, slots {' '.join(map(str, slots))}{at}"
