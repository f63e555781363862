"""The unknowns of the paper's own form: one Boolean for each instruction, iteration and cycle.

The paper (arXiv 2512.18134, section 4) lays ⌈L/I⌉ iterations of a loop over one another, I cycles apart: prologue, one
pass of the steady state and epilogue are a straight-line program of T = (⌈L/I⌉ - 1)·I + L cycles. op(v, i, t) says that
iteration i issues instruction v at cycle t of it, for i in [0, ⌈L/I⌉) and t in [0, T).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twill.smt.boolean_encoding import BooleanEncoding


@dataclass
class Grid(BooleanEncoding):
    """A window with a literal for each instruction, iteration and cycle at which it may be issued."""

    @property
    def copies(self) -> int:
        """⌈L / I⌉: iterations that overlap."""
        return max(1, -(-self.length // self.ii))

    @property
    def cycles(self) -> int:
        """T: cycles of the straight-line program."""
        return (self.copies - 1) * self.ii + self.length

    @property
    def steady(self) -> range:
        """The cycles in which every iteration that overlaps is there: one for each row modulo I."""
        return range((self.copies - 1) * self.ii, self.copies * self.ii)

    def op(self, v: int, i: int, t: int) -> str:
        """The literal "iteration i issues v at cycle t"; "false" where completion or consistency leave no other choice.

        An iteration outside [0, ⌈L/I⌉), which the paper does not look at, has the literals of iteration 0.
        """
        if not 0 <= t - i * self.ii <= self.latest(v):
            return "false"
        return f"op{v}_{i}_{t}" if 0 <= i < self.copies else f"op{v}_0_{t - i * self.ii}"

    def first(self, v: int, t: int) -> str:
        """The literal "iteration 0 issues v at cycle t"."""
        return self.op(v, 0, t)

    def issues(self, v: int, i: int) -> range:
        """The cycles at which iteration i may issue v."""
        return range(i * self.ii, i * self.ii + self.latest(v) + 1)

    def issued(self, v: int, first: int, last: int, lowest: int | None = 0) -> list[str]:
        """For every iteration from `lowest` on (None: any), the literals "it issues v at a cycle of [first, last]"."""
        begins = -(-(first - self.latest(v)) // self.ii)
        if lowest is not None:
            begins = max(begins, lowest)
        highest = min(last // self.ii, self.copies - 1)
        found = (self.op(v, i, t) for i in range(begins, highest + 1) for t in range(first, last + 1))
        return [literal for literal in found if literal != "false"]

    def pairs(self, distance: int) -> Iterator[tuple[int, int]]:
        """Iterations i and i + distance of the straight-line program; one pair if it is shorter than that."""
        yield from [(i, i + distance) for i in range(self.copies - distance)] or [(0, distance)]
