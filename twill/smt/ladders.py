"""The unknowns of the Boolean form with ladders.

op(v, t) says that iteration 0 issues instruction v at cycle t of a window of L cycles; by(v, t), that it does so at t
or before. Later iterations have no literals of their own: rows, modulo I, in which something is busy are defined from
these.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.smt.boolean_encoding import BooleanEncoding, negated


@dataclass
class Ladders(BooleanEncoding):
    """A window with the literals of iteration 0."""

    def op(self, v: int, t: int) -> str:
        """The literal "iteration 0 issues v at cycle t"."""
        return f"op{v}_{t}" if 0 <= t <= self.latest(v) else "false"

    first = op

    def by(self, v: int, t: int) -> str:
        """The literal "iteration 0 issues v at cycle t or before"."""
        if t < 0:
            return "false"
        return "true" if t >= self.latest(v) else f"by{v}_{t}"

    def busy(self, name: str, v: int, offset: int, cycles: int, condition: str = "true") -> tuple[str, ...]:
        """For each row modulo I, a literal that is true if, under `condition`, the row lies in
        [t_v + offset, t_v + offset + cycles). Asserts that `cycles` fit into I if `condition` holds.
        """
        if condition == "false" or not cycles:
            return ("false",) * self.ii
        if cycles > self.ii:
            self.clause(negated(condition))
            return ("false",) * self.ii
        rows = tuple(self.declare(f"{name}_{row}") for row in range(self.ii))
        for t in range(offset, self.latest(v) + offset + cycles):
            issued, over = self.by(v, t - offset), self.by(v, t - offset - cycles)
            self.clause(negated(condition), negated(issued), over, rows[t % self.ii])
        return rows
