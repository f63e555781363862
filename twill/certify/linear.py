"""Linear inequalities over named integers, the only literals that statements and proofs are made of.

A yes-or-no unknown is an integer between 0 and 1: "yes" is `x >= 1`. The negation of an inequality over
integers is one too, so a clause is a set of inequalities and nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd


@dataclass(frozen=True)
class Linear:
    """Σ coefficient · unknown <= bound, by name, with coefficients that have no common divisor."""

    terms: tuple[tuple[str, int], ...]
    bound: int


Literal = Linear | bool  # a literal without unknowns is decided
Clause = tuple[Linear, ...]  # at least one holds; () is a contradiction


def at_most(terms: Mapping[str, int], bound: int) -> Literal:
    """Σ coefficient · unknown <= bound, divided by what the coefficients share, and rounded: unknowns are integers."""
    present = sorted((name, factor) for name, factor in terms.items() if factor)
    if not present:
        return bound >= 0
    shared = gcd(*(factor for _, factor in present))
    return Linear(tuple((name, factor // shared) for name, factor in present), bound // shared)


def at_least(terms: Mapping[str, int], bound: int) -> Literal:
    """Σ coefficient · unknown >= bound."""
    return at_most({name: -factor for name, factor in terms.items()}, -bound)


def negated(literal: Literal) -> Literal:
    """What holds exactly where `literal` does not."""
    if isinstance(literal, bool):
        return not literal
    return Linear(tuple((name, -factor) for name, factor in literal.terms), -literal.bound - 1)


def either(*literals: Literal) -> tuple[Clause, ...]:
    """The clause of these literals as zero or one clauses: none if one of them always holds."""
    if any(literal is True for literal in literals):
        return ()
    return (tuple(dict.fromkeys(literal for literal in literals if isinstance(literal, Linear))),)


@dataclass
class Atoms:
    """Literals as numbers: n and -n are negations of each other."""

    known: dict[Linear, int] = field(default_factory=dict)
    literals: list[Linear] = field(default_factory=list)  # of number n, at n - 1

    def number(self, literal: Linear) -> int:
        """The literal's number; a new one if neither it nor its negation was seen."""
        if literal.terms[0][1] < 0:
            return -self._positive(Linear(tuple((n, -f) for n, f in literal.terms), -literal.bound - 1))
        return self._positive(literal)

    def _positive(self, literal: Linear) -> int:
        found = self.known.get(literal)
        if found is None:
            self.literals.append(literal)
            found = self.known[literal] = len(self.literals)
        return found

    def literal(self, number: int) -> Linear:
        """The literal of this number."""
        one = self.literals[abs(number) - 1]
        if number > 0:
            return one
        return Linear(tuple((name, -factor) for name, factor in one.terms), -one.bound - 1)
