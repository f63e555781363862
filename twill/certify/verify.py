"""The proof checker: every step is a sum of inequalities (Farkas) or a unit propagation, and is checked.

It needs the rules of the statement (`twill.certify.statement`), which say in clauses what docs/model.md says in words,
and no solver. Every step is checked when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twill.certify.linear import Atoms, Linear, at_most
from twill.certify.proof import Proof
from twill.certify.statement import Statement

Numbers = tuple[int, ...]


class WrongStep(Exception):
    """A step does not follow: the number of the line (from 2, the first is the header) and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")


@dataclass
class Checker:
    """What has been proven so far."""

    statement: Statement
    atoms: Atoms = field(default_factory=Atoms)
    clauses: list[Numbers] = field(default_factory=list)
    _rules: dict[tuple[object, ...], tuple[Numbers, ...]] = field(default_factory=dict)

    def step(self, line: Sequence[object]) -> None:
        """Check one line and remember what it proves. Raises ValueError."""
        kind = KINDS.get(str(line[0])) if line else None
        if kind is None:
            raise ValueError("no such kind of step")
        kind(self, *line[1:])

    def literal(self, parts: list[str | int], bound: int) -> None:
        """The next literal."""
        names, factors = parts[::2], parts[1::2]
        given = at_most(dict(zip(map(str, names), whole(factors), strict=True)), whole([bound])[0])
        known = len(self.atoms.literals)
        if isinstance(given, bool) or self.atoms.number(given) != known + 1:
            raise ValueError("the literal is decided or not new")

    def rule(self, key: list[str | int], place: int) -> None:
        """A clause of the statement."""
        name = tuple(key)
        if name not in self._rules:
            try:
                clauses = self.statement.clauses(name)
            except KeyError:
                raise ValueError(f"no rule is called {key}") from None
            self._rules[name] = tuple(tuple(map(self.number, clause)) for clause in clauses)
        if not 0 <= place < len(self._rules[name]):
            raise ValueError(f"the rule {key} has {len(self._rules[name])} clauses, none in place {place}")
        self.clauses.append(self._rules[name][place])

    def number(self, literal: Linear) -> int:
        """The literal's number; one that the proof does not name gets one that it cannot use."""
        return self.atoms.number(literal)

    def sum(self, clause: list[int], factors: list[int]) -> None:
        """A clause whose denial adds up to a contradiction."""
        total: dict[str, int] = {}
        bound = 0
        for number, factor in zip(self.meant(clause), whole(factors), strict=True):
            if factor <= 0:
                raise ValueError("a factor is not positive")
            denied = self.atoms.literal(-number)
            bound += factor * denied.bound
            for name, times in denied.terms:
                total[name] = total.get(name, 0) + factor * times
        left = [name for name, times in total.items() if times]
        if left:
            raise ValueError(f"the sum still has {left[0]}")
        if bound >= 0:
            raise ValueError(f"the sum says 0 <= {bound}, which is no contradiction")
        self.clauses.append(tuple(clause))

    def follows(self, clause: list[int], steps: list[int]) -> None:
        """A clause that earlier ones imply, one unit at a time."""
        held = {-number for number in self.meant(clause)}
        for place, step in enumerate(whole(steps)):
            if not 0 <= step < len(self.clauses):
                raise ValueError(f"there is no step {step} before it")
            open_ = [number for number in self.clauses[step] if -number not in held]
            if not open_:
                if place != len(steps) - 1:
                    raise ValueError(f"step {step} is a contradiction already, but others follow")
                self.clauses.append(tuple(clause))
                return
            if len(open_) > 1:
                raise ValueError(f"step {step} leaves {len(open_)} literals open")
            held.add(open_[0])
        raise ValueError("no step leads to a contradiction")

    def meant(self, clause: list[int]) -> list[int]:
        """The numbers, each of a literal."""
        for number in whole(clause):
            if not 0 < abs(number) <= len(self.atoms.literals):
                raise ValueError(f"there is no literal {number}")
        return clause


KINDS: dict[str, Callable[..., None]] = {
    "literal": Checker.literal,
    "rule": Checker.rule,
    "sum": Checker.sum,
    "follows": Checker.follows,
}


def whole(numbers: Sequence[object]) -> list[int]:
    """The numbers, if all are whole."""
    if not isinstance(numbers, list) or not all(type(n) is int for n in numbers):
        raise ValueError("it has something else where whole numbers belong")
    return list(numbers)


def verify(proof: Proof, statement: Statement) -> int:
    """The number of steps of a proof that the statement contradicts itself. Raises WrongStep."""
    checker = Checker(statement)
    number = 1
    for number, line in enumerate(proof.lines, 2):
        try:
            checker.step(line)
        except (ValueError, TypeError) as error:
            raise WrongStep(number, str(error)) from None
    if not checker.clauses or checker.clauses[-1]:
        raise WrongStep(number, "the proof ends before it comes to a contradiction")
    return len(checker.clauses)
