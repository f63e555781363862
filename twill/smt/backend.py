"""The narrow interface to an SMT solver: SMT-LIB 2 text in, verdict and values out.

A session is incremental: declarations and assertions accumulate; `check` may add temporary
assertions. z3 runs in the same process. A limit that ran out is "unknown", never "infeasible".
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import z3

from twill.smt.interrupt import interruptible

# Names of the encoding that no assignment is read from; a large model has thousands of them.
AUXILIARY = re.compile(r"lt_|same\d|live\d|depth\d|resident\d|crosses\d|used\d|because\d|[rs]\d+_")
VALUE = re.compile(r"\(define-fun (\S+) \(\) (?:Int|Bool)\s+(?:(true)|(false)|(\d+)|\(- (\d+)\))\)")
Sort = Literal["Int", "Bool"]
Outcome = Literal["sat", "unsat", "unknown"]


@dataclass(frozen=True)
class Answer:
    """Verdict of one check, its wall time, and (if sat) the values of the names that are not auxiliary."""

    outcome: Outcome
    seconds: float
    values: dict[str, int]  # Booleans as 0 and 1
    core: tuple[str, ...] = ()


class Session(Protocol):
    """One incremental conversation with a solver."""

    name: str

    def declare(self, name: str, sort: Sort) -> None:
        """Introduce a constant."""

    def add(self, assertions: Iterable[str]) -> None:
        """Assert terms for good."""

    def check(
        self,
        extra: Sequence[str] = (),
        assuming: Sequence[str] = (),
        seconds: float | None = None,
        effort: int = 0,
    ) -> Answer:
        """Decide the assertions with `extra` for this check only, under the literals `assuming`.

        effort: limit of the solver's deterministic resource counter, 0 for none.
        """


class Z3Session:
    """z3 in process."""

    def __init__(self, seed: int = 0) -> None:
        self.name = f"z3 {z3.get_version_string()}"
        self._context = z3.Context()
        self._solver = z3.SimpleSolver(ctx=self._context)
        self._solver.set("arith.solver", 2)  # the older simplex is the faster one on difference constraints
        self._solver.set("random_seed", seed)
        self._solver.set("relevancy", 0)
        self._news: list[tuple[str, Sort]] = []
        self._wanted: set[str] = set()  # the constants whose values are told

    def declare(self, name: str, sort: Sort) -> None:
        """Introduce a constant."""
        self._news.append((name, sort))
        if not AUXILIARY.match(name):
            self._wanted.add(name)

    def add(self, assertions: Iterable[str]) -> None:
        """Assert terms for good."""
        self._assert(assertions)

    def check(
        self,
        extra: Sequence[str] = (),
        assuming: Sequence[str] = (),
        seconds: float | None = None,
        effort: int = 0,
    ) -> Answer:
        """Decide the assertions with `extra` for this check only, under the literals `assuming`.

        effort: limit of the solver's deterministic resource counter, 0 for none.
        """
        if seconds is not None and seconds <= 0:
            return Answer("unknown", 0.0, {})
        begun = time.perf_counter()
        self._solver.set("timeout", 0xFFFFFFFF if seconds is None else max(1, int(seconds * 1000)))
        self._solver.set("rlimit", effort)
        if extra:
            self._solver.push()
            self._assert(extra)
        try:
            literals = [z3.Bool(a, ctx=self._context) for a in assuming]
            outcome = interruptible(self._solver, lambda: self._solver.check(*literals))
            values = self._values() if outcome == z3.sat else {}
            core = tuple(str(c) for c in self._solver.unsat_core()) if outcome == z3.unsat and assuming else ()
        finally:
            if extra:
                self._solver.pop()
        return Answer(_OUTCOMES[outcome.r], time.perf_counter() - begun, values, core)

    def _assert(self, assertions: Iterable[str]) -> None:
        """Assert terms; z3 is told of a constant once, with the first terms after its declaration."""
        new = [f"(declare-const {name} {sort})" for name, sort in self._news]
        self._news.clear()
        self._solver.from_string("\n".join([*new, *(f"(assert {a})" for a in assertions)]))

    def _values(self) -> dict[str, int]:
        """Values of the constants that are told, read from the model's text, which is faster than term by term."""
        values: dict[str, int] = {}
        for name, true, false, positive, negative in VALUE.findall(self._solver.model().sexpr()):
            if name in self._wanted:
                values[name] = 1 if true else 0 if false else int(positive) if positive else -int(negative)
        return values


_OUTCOMES: dict[int, Outcome] = {1: "sat", -1: "unsat", 0: "unknown"}
