"""The clauses that z3 learned while refuting a statement. They are hints, each derived again in the proof."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import z3

from twill.certify.linear import Clause, Linear, at_most, negated

_WORDS = re.compile(r"[()]|[^\s()]+")


@dataclass
class Log:
    """Clauses of linear literals in the order in which z3 found them, each once."""

    solver: z3.Solver
    learned: list[tuple[bool, Clause]] = field(default_factory=list)  # whether it is said to follow from earlier ones
    _seen: set[Clause] = field(default_factory=set)
    _known: dict[int, tuple[object, Linear | bool | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._listener = z3.OnClause(self.solver, self._hear)

    def forget(self, clauses: Iterable[Clause]) -> None:
        """Clauses that need not be learned."""
        self._seen.update(clauses)

    def _hear(self, why: z3.ExprRef, _: object, literals: z3.AstVector) -> None:
        kind = why.decl().name()
        if kind in ("del", "assumption"):
            return
        parts = [self._read(literals, n) for n in range(len(literals))]
        if any(part is None or part is True for part in parts):
            return
        clause = tuple(dict.fromkeys(part for part in parts if isinstance(part, Linear)))
        if clause not in self._seen:
            self._seen.add(clause)
            self.learned.append((kind == "rup", clause))

    def _read(self, literals: z3.AstVector, place: int) -> Linear | bool | None:
        """A literal; z3's own functions for looking into terms take most of a proof's time, its text is quicker."""
        context = literals.ctx.ref()
        term = z3.Z3_ast_vector_get(context, literals.vector, place)
        number = z3.Z3_get_ast_id(context, term)
        known = self._known.get(number)
        if known is None:
            retained = literals[place]  # while it is kept, nothing else has its number
            known = self._known[number] = (retained, inequality(z3.Z3_ast_to_string(context, term)))
        return known[1]


def inequality(text: str) -> Linear | bool | None:
    """A literal in SMT-LIB 2 as one of ours; None if it is no inequality of sums."""
    return _literal(_term(iter(_WORDS.findall(text))))


def _term(words: Iterator[str]) -> object:
    """The next term: a word, or a list of terms."""
    word = next(words)
    if word != "(":
        return word
    parts: list[object] = []
    while (part := _term(words)) != ")":
        parts.append(part)
    return parts


def _literal(term: object) -> Linear | bool | None:
    match term:
        case "true" | "false":
            return term == "true"
        case ["not", inner]:
            literal = _literal(inner)
            return None if literal is None else negated(literal)
        case ["<=" | ">=" as relation, left, right]:
            total: dict[str, int] = {}
            sign = 1 if relation == "<=" else -1
            try:
                rest = _sum(left, sign, total) + _sum(right, -sign, total)
            except ValueError:
                return None
            return at_most(total, -rest)
    return None


def _sum(term: object, factor: int, total: dict[str, int]) -> int:
    """Adds factor · term to `total`; returns what has no unknown. Raises ValueError if it is no sum."""
    match term:
        case str() if term.isdigit():
            return factor * int(term)
        case str():
            total[term] = total.get(term, 0) + factor
            return 0
        case ["-", inner]:
            return _sum(inner, -factor, total)
        case ["+", *parts]:
            return sum(_sum(part, factor, total) for part in parts)
        case ["*", number, inner]:
            unknowns: dict[str, int] = {}
            scaled = _sum(number, factor, unknowns)
            if not unknowns:
                return _sum(inner, scaled, total)
    raise ValueError(term)
