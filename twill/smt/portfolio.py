"""Two solvers race on every question; the first answer counts, and says who gave it.

z3 works in this process and an external program beside it. A verdict is a verdict, whoever gives it, so the proven
figures are the same as with one solver; which of several optimal schedules comes out may differ from run to run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from twill.smt.backend import Answer, Sort, Z3Session
from twill.smt.external import ExternalSession, Program

POLL_SECONDS = 0.01


@dataclass
class Portfolio:
    """A session that hands everything to both. name: of the solver that gave the last answer."""

    program: Program
    seed: int = 0
    name: str = "portfolio"
    answered: dict[str, int] = field(default_factory=dict)  # how many answers each solver gave

    def __post_init__(self) -> None:
        self._inside = Z3Session(self.seed)
        self._outside = ExternalSession(self.program)

    def declare(self, name: str, sort: Sort) -> None:
        """Introduce a constant."""
        self._inside.declare(name, sort)
        self._outside.declare(name, sort)

    def add(self, assertions: Iterable[str]) -> None:
        """Assert terms for good."""
        terms = list(assertions)
        self._inside.add(terms)
        self._outside.add(terms)

    def check(
        self,
        extra: Sequence[str] = (),
        assuming: Sequence[str] = (),
        seconds: float | None = None,
        effort: int = 0,
    ) -> Answer:
        """Decide the assertions with `extra` for this check only. `seconds` and `effort` are z3's, and end the race."""
        begun = time.perf_counter()
        self._outside.begin(extra, assuming)
        answers: list[Answer] = []
        errors: list[BaseException] = []

        def inside() -> None:
            try:
                answers.append(self._inside.check(extra, assuming, seconds, effort))
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=inside, name="z3")
        thread.start()
        other: Answer | None = None
        try:
            while thread.is_alive() and other is None:
                other = self._outside.poll(POLL_SECONDS)
            while thread.is_alive() and (other is None or other.outcome == "unknown"):
                thread.join(POLL_SECONDS)
        finally:
            while thread.is_alive():
                self._inside.interrupt()
                thread.join(POLL_SECONDS)
            if other is None:
                self._outside.close()
        if errors:
            raise errors[0]
        won = other if other is not None and other.outcome != "unknown" else answers[0]
        self.name = self.program.name if won is other else self._inside.name
        self.answered[self.name] = self.answered.get(self.name, 0) + 1
        return Answer(won.outcome, time.perf_counter() - begun, won.values, won.core)
