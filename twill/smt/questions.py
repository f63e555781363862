"""Questions about one loop, put to a solver; every one is recorded as a step of the certificate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from twill.schedule.document import SolverStep, Verdict
from twill.smt.assignment import Assignment, read_assignment
from twill.smt.backend import Outcome as Answered
from twill.smt.backend import Session, Z3Session
from twill.smt.compaction import compacted
from twill.smt.encoding import Encoding
from twill.smt.lazy import LazyRules
from twill.smt.lemmas import NeverCross
from twill.smt.limits import Limits, OutOfBudget
from twill.smt.problem import Problem
from twill.smt.rules import assert_rules

HARD = 2_000_000  # a question that this effort does not answer is hard


@dataclass
class Questions:
    """One encoding at a time, of an I or of a range of I. A model that passes every rule, compacted, becomes `best`.

    least_ii: I below which nothing is of interest. compacting: whether models are compacted.
    """

    problem: Problem
    limits: Limits
    open_session: Callable[[], Session] | None = None
    least_ii: int = 1
    compacting: bool = True
    steps: list[SolverStep] = field(default_factory=list)
    best: Assignment | None = None
    _encoding: Encoding | None = None
    _lazy: LazyRules | None = None
    _hard: bool = False  # a question was too hard once, so that lemmas are worth their time

    def __post_init__(self) -> None:
        p = self.problem
        self._never_cross = NeverCross(p.graph, p.machine, self.open, p.fixed, self.limits.left)

    @property
    def encoding(self) -> Encoding:
        """The encoding that questions are put in now."""
        assert self._encoding is not None
        return self._encoding

    @property
    def found(self) -> Assignment:
        """The best assignment, where there must be one."""
        assert self.best is not None
        return self.best

    def about(self, ii: tuple[int, int], recalling: bool = False) -> Encoding:
        """The encoding of this closed range of I, opened if it is not the present one.

        recalling: with all that models of the one before broke. That saves rounds where a model is likely, and
        makes a refutation longer. Raises OutOfBudget if the time ends before it is written.
        """
        if self._encoding is not None and self._encoding.ii == ii:
            return self._encoding
        self._encoding, p = None, self.problem
        e = Encoding(
            p.graph, p.machine, self.open(), ii, pinned=p.names_instructions, named_slots=p.names_slots,
            left=self.limits.left,
        )  # fmt: skip
        before, self._lazy = self._lazy, LazyRules(e)
        assert_rules(e)
        p.demand(e)
        if self._hard and self.best is not None and not self.problem.large:
            self._never_cross.learn(self.best.ii)
        for x in self._never_cross.up_to(ii[1]):
            e.add(e.is_local(e.value(x)))
        if recalling and before is not None:
            self._lazy.recall(before)
        e.flush()
        self._encoding = e
        return e

    def ask(self, question: str, copies: int, extra: Sequence[str] = ()) -> Assignment | None:
        """An assignment that also satisfies `extra`, or None if there is none. Raises OutOfBudget."""
        answer = self.probe(question, copies, extra, self.limits.resource_limit)
        if answer == "unknown":
            raise OutOfBudget
        return self.best if answer == "sat" else None

    def probe(
        self, question: str, copies: int, extra: Sequence[str], effort: int, only_found: bool = False
    ) -> Answered:
        """Ask with at most `effort` (z3's resource counter, 0: no limit). Raises OutOfBudget if there is no more.

        only_found: leave no record of a question that found nothing.
        """
        begun = time.perf_counter()
        e = self.encoding
        while True:
            e.flush()
            answer = e.session.check(extra, seconds=self.limits.left(), effort=effort)
            if answer.outcome != "sat":
                break
            a = read_assignment(e, answer.values)
            granule = e.machine.register_file.granule
            budgets = {s.id: granule * answer.values.get(f"b{s.id}", 0) for s in a.used}
            assert self._lazy is not None
            if not self._lazy.refine(a, budgets):
                self.take(a)
                break
        self._hard |= answer.outcome == "unknown" and effort >= HARD
        seconds = time.perf_counter() - begun
        if answer.outcome == "sat" or not only_found:
            self.record(e.ii, copies, question, _VERDICTS[answer.outcome], e.session.name, seconds)
        left = self.limits.left()
        if answer.outcome == "unknown" and left is not None and left <= 0:
            raise OutOfBudget
        if answer.outcome == "unknown" and effort and effort == self.limits.resource_limit:
            raise OutOfBudget
        return answer.outcome

    def take(self, a: Assignment) -> None:
        """`a`, compacted, is the best assignment from now on. (Pins may forbid what compaction does.)"""
        begun = time.perf_counter()
        compacting = self.compacting and not self.problem.pins
        self.best = compacted(a, self.least_ii, self.problem.hazard_pairs) if compacting else a
        if self.best.ii < a.ii:
            ii = (self.best.ii, self.best.ii)
            self.record(ii, 0, "feasible", "feasible", "compaction", time.perf_counter() - begun)

    def keep(self, terms: Iterable[str]) -> None:
        """Assert terms for every question still to come in this encoding."""
        for term in terms:
            self.encoding.add(term)
        self.encoding.flush()

    def record(self, ii: tuple[int, int], copies: int, question: str, verdict: Verdict, solver: str, s: float) -> None:
        """Note a question and its answer."""
        self.steps.append(
            SolverStep(
                ii=ii[0], ii_to=ii[1], copies=copies, question=question, verdict=verdict, solver=solver, seconds=s
            )
        )

    def open(self) -> Session:
        """A new session with the solver."""
        return self.open_session() if self.open_session else Z3Session(self.limits.seed)


_VERDICTS: dict[str, Verdict] = {"sat": "feasible", "unsat": "infeasible", "unknown": "unknown"}
