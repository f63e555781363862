"""Derives clauses from the statement that a solver claims to be consequences, last one first, and writes the proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from twill.certify.farkas import factors
from twill.certify.linear import Atoms, Clause
from twill.certify.proof import names_and_factors
from twill.certify.statement import Key
from twill.certify.trim import Propagation

Step = tuple[
    str, tuple[int, ...], list[int]
]  # "sum" with factors, or "follows" with clauses; the last is the one before


class Unprovable(Exception):
    """The solver gave up, or what it says cannot be derived again: the reason."""


@dataclass
class Derivation:
    """inputs: clauses of the statement. learned: clauses, and whether each is said to follow from earlier ones."""

    inputs: Sequence[tuple[Key, int, Clause]]
    learned: Sequence[tuple[bool, Clause]]
    _atoms: Atoms = field(default_factory=Atoms)
    _clauses: Propagation = field(default_factory=Propagation)
    _steps: dict[int, list[Step]] = field(default_factory=dict)  # how a learned clause is derived
    _needed: set[int] = field(default_factory=set)

    def lines(self) -> tuple[list[object], ...]:
        """The lines of the proof. Raises Unprovable."""
        for clause in (*(clause for _, _, clause in self.inputs), *(clause for _, clause in self.learned)):
            self._clauses.add([self._atoms.number(literal) for literal in clause])
        end = len(self._clauses.clauses)
        self._derive(end, (), follows=True)
        for number in range(end - 1, len(self.inputs) - 1, -1):
            if number in self._needed:
                self._derive(number, self._clauses.clauses[number], self.learned[number - len(self.inputs)][0])
        return tuple(self._written())

    def _derive(self, number: int, clause: tuple[int, ...], follows: bool) -> None:
        """Find how a clause follows from those before it."""
        if not follows and (alone := self._sum([-literal for literal in clause])) is not None:
            self._steps[number] = [("sum", *alone)]
            return
        reason, trail, broken = self._clauses.consequences(clause, number)
        if broken is not None:
            steps = self._clauses.chain(reason, trail, self._clauses.clauses[broken])
            self._steps[number] = [("follows", clause, [*steps, broken])]
            self._needed.update(self._steps[number][0][2])
            return
        together = self._sum(trail)
        if together is None:
            raise Unprovable("a clause that z3 learned could not be derived again")
        steps = self._clauses.chain(reason, trail, together[0])
        self._needed.update(steps)
        self._steps[number] = [("sum", *together), ("follows", clause, [*steps, -1])]

    def _sum(self, held: Sequence[int]) -> tuple[tuple[int, ...], list[int]] | None:
        """The clause that some of these literals fail, with its factors, if they add up to a contradiction."""
        found = factors([self._atoms.literal(number) for number in held])
        if found is None:
            return None
        used = [(-number, factor) for number, factor in zip(held, found, strict=True) if factor]
        return tuple(number for number, _ in used), [factor for _, factor in used]

    # -- writing ----------------------------------------------------------------------------------

    def _written(self) -> Iterator[list[object]]:
        inputs = [n for n in range(len(self.inputs)) if n in self._needed]
        derived = sorted(self._steps)
        clauses = [clause for n in derived for _, clause, _ in self._steps[n]]
        short: dict[int, int] = {}
        for number in sorted({abs(literal) for clause in clauses for literal in clause}):
            short[number] = len(short) + 1
            literal = self._atoms.literal(number)
            yield ["literal", names_and_factors(literal.terms), literal.bound]
        place: dict[int, int] = {}
        for number in inputs:
            place[number] = len(place)
            key, which, _ = self.inputs[number]
            yield ["rule", list(key), which]
        written = len(place)
        for number in derived:
            for kind, clause, details in self._steps[number]:
                literals = [short[abs(n)] * (1 if n > 0 else -1) for n in clause]
                if kind == "follows":
                    details = [written - 1 if n < 0 else place[n] for n in details]
                yield [kind, literals, details]
                written += 1
            place[number] = written - 1
