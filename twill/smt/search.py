"""The search: the smallest I, then the objectives behind it (`twill.smt.descent`).

I starts at its best lower bound. A value of I is given up only when no number of copies makes it
feasible (the paper's loop gives it up earlier and can miss the optimum). Infeasibility need not
be monotone in I, so a failed start is followed by questions about whole ranges of I, with I an
unknown: an unsatisfiable range is closed for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.document import Bounds, Certificate, SolverStep
from twill.smt import spending
from twill.smt.assignment import Assignment
from twill.smt.backend import Outcome as Answered
from twill.smt.backend import Session
from twill.smt.descent import Descent
from twill.smt.encoding import Encoding
from twill.smt.limits import Limits, OutOfBudget
from twill.smt.margin import widest
from twill.smt.neighbourhood import Neighbourhoods
from twill.smt.objectives import (
    OBJECTIVES,
    crossing_at_most,
    crossing_sums,
    forced_crossing,
    length_at_most,
    shortest_length,
)
from twill.smt.outcome import Outcome, Progress
from twill.smt.pins import Pin
from twill.smt.problem import Problem
from twill.smt.questions import Questions
from twill.smt.relaxation import Relaxation, least_possible
from twill.smt.warm import TOGETHER, HeuristicStarts, joined_start, patient_start, repeated_start
from twill.zlp.bounds import lower_bounds
from twill.zlp.largest import largest_ii

State = Literal["open", "found", "infeasible", "out of budget"]


@dataclass
class Search:
    """One loop's search. ii: only this I is asked about. fixed, floors: see `twill.smt.problem`. warm: start from what
    the heuristic finds, if it respects all this. margin: look for room for late MMAs (`twill.smt.margin`). at_most: the
    largest I that is of use (None: any is). starts: what the heuristic has found for this and other loops. lower: every
    smaller I is closed. effort: of the solver's counter for each question of the next round."""

    graph: CostedGraph
    machine: Machine
    bounds: Bounds
    limits: Limits = field(default_factory=Limits)
    pins: tuple[Pin, ...] = ()
    ii: int | None = None
    fixed: Mapping[int, int] = field(default_factory=dict)
    floors: Mapping[int, int] = field(default_factory=dict)
    progress: Callable[[Progress], None] | None = None
    open_session: Callable[[], Session] | None = None
    warm: bool = True
    margin: bool = False
    at_most: int | None = None
    starts: HeuristicStarts = field(default_factory=HeuristicStarts)
    state: State = "open"
    lower: int = 1
    effort: int = spending.FIRST_EFFORT

    def __post_init__(self) -> None:
        self._begun = time.perf_counter()
        self._all = self.limits = self.limits.counting()
        self._makes_room = self.margin and not self.pins
        if self._makes_room:
            self.limits = self.limits.sparing(spending.FOR_ROOM)
        self._problem = Problem(self.graph, self.machine, self.pins, self.fixed, self.floors)
        self._questions = Questions(self._problem, self.limits, self.open_session)
        self._neighbourhoods = Neighbourhoods(self._questions, self.limits.seed)
        self._middle_effort = spending.FIRST_EFFORT // spending.IN_RANGE
        self._undecided: dict[int, int] = {}
        self._proven: list[str] = []
        self._roomy = False  # the objectives behind the margin were minimized
        self._joined: Assignment | None = None  # what was found with the parts of products together
        self.lower = self.ii or self.bounds.best
        pinned = sum(p.value for p in self.pins if p.key == "start")
        self._cap = self.ii or max(largest_ii(self.graph) + pinned, self.lower)
        self._width = max(16, self.lower // 16)
        self._warmed = not self.warm or bool(self.ii or self.pins)
        self._relaxed = bool(self.ii or self.pins)
        self._relaxed_to = 0  # the I that the relaxation led to
        self._relaxation: Relaxation | None = None
        if self.bounds.best > 1:
            below = (1, self.bounds.best - 1)
            self._questions.record(below, 0, self.bounds.witness, "bound", "lower bounds", 0.0)

    @property
    def best(self) -> Assignment | None:
        """The best schedule so far."""
        return self._questions.best

    @property
    def steps(self) -> list[SolverStep]:
        """All questions so far."""
        return self._questions.steps

    @property
    def upper(self) -> int | None:
        """I of the best schedule so far."""
        return None if self.best is None else self.best.ii

    def run(self) -> Outcome:
        """Search until proven optimal, proven infeasible, or out of budget."""
        while self.state == "open":
            self.advance()
        return self.finish()

    def advance(self, worth_ii: int | None = None) -> None:
        """One round of questions about I, each with the effort that the round allows.

        Raises `lower` past every I that is closed, and lowers `upper`, the I of the best schedule, until
        they meet. Leaves state "found", "infeasible", "out of budget" or "open". worth_ii: no I beyond
        it is looked at.
        """
        self._questions.least_ii = self.lower
        if not self._warmed and (worth_ii is None or worth_ii > self.lower):
            self._warm_start()
        before = (self.lower, self.upper)
        try:
            if self.upper != self.lower:
                self._round(worth_ii)
        except OutOfBudget:
            self.state = "out of budget"
            return
        if self.upper == self.lower:
            self.state = "found"
        elif self.lower > self._cap:
            self.state = "infeasible"
        elif before == (self.lower, self.upper):
            self.effort *= spending.EFFORT_GROWTH

    def fall_back(self) -> None:
        """Where the budget ended without a schedule: one that the heuristic finds if it takes its time."""
        if self.best is None and self.warm and not (self.ii or self.pins):
            begun, more = time.perf_counter(), self._all.after(spending.TO_FALL_BACK)
            found = patient_start(self._problem, self.lower, more.over)
            if found is not None and self._problem.keeps_fixed(found):
                self._start_from(found, "iterative modulo scheduling", begun)

    def finish(self) -> Outcome:
        """The outcome, after minimizing the objectives behind I if I was found."""
        settled = self.state == "found" and self.best is self._joined  # what is behind I is least with parts together
        if settled:
            self._proven.append("ii")
        elif self.state == "found":
            try:
                self._descend()
            except OutOfBudget:
                self.state = "out of budget"
        elif self.state == "out of budget" and self._makes_room and self.best is not None:
            with suppress(OutOfBudget):
                self._make_room()
        lower = self.lower
        if self.ii is not None and self.ii > self.bounds.best:  # smaller I were not asked about
            lower = self.bounds.best
            self._proven.clear()
        proven = len(self._proven) == len(OBJECTIVES) or ((self._roomy or settled) and bool(self._proven))
        certificate = Certificate(
            bounds=self.bounds,
            steps=tuple(self.steps),
            optimal=self.best is not None and proven,
            lower_bound=lower,
            seed=self.limits.seed,
            resource_limit=self.limits.resource_limit,
            budget_seconds=self._all.seconds,
        )
        return Outcome(
            self.best,
            None if self.best is None else self.best.objective(self._proven),
            certificate,
            self.state == "infeasible",
        )

    def _descend(self) -> None:
        """The objectives behind I; with row blocks that read one another's tiles those are hard. Raises OutOfBudget."""
        ii, entwined = self._questions.found.ii, self.graph.cooperation.columns and not self.pins
        relaxation = self._relaxation_at(ii) if entwined or ii == self._relaxed_to else None
        descent = Descent(self._questions, self._tell, relaxation, self._proven)
        try:
            descent.structure()
        except OutOfBudget:
            if self._makes_room:
                self._make_room()
            raise
        if not self._makes_room or not self._make_room():
            descent.detail()
        else:
            self._roomy = True

    def _make_room(self) -> bool:
        """Whether there is room for late MMAs; then L and registers are minimized behind it. Raises OutOfBudget.

        Whatever was left of the time for other questions, there is time for these.
        """
        self._questions.limits = self._all
        room = widest(self._questions)
        if room.questions is None and not room.ended:
            room = widest(self._questions, more=1)
            if room.questions is not None:
                del self._proven[1:]  # copies are not the fewest
        if room.questions is None:
            if room.ended:
                raise OutOfBudget
            return False
        try:  # L and registers are then not the least of all schedules: nothing of them is claimed
            Descent(room.questions, self._tell, given=" with the margin").detail()
        finally:
            self._questions.best = replace(room.questions.found, graph=self.graph)
        if room.ended:
            raise OutOfBudget
        return True

    # -- questions about I ----------------------------------------------------------------------

    def _round(self, worth_ii: int | None) -> None:
        """The questions of one round: everything of interest at once, which costs little where it is impossible.

        Then this I, a range from it, and where a schedule may be easy to find. If the last I of interest is near, the
        relaxation comes first: it mostly closes at once what the rules take long to.
        """
        self._tell("ii", self.lower, self.upper)
        last = min(x for x in (self._cap, worth_ii, None if self.upper is None else self.upper - 1) if x is not None)
        if self._problem.large and ((not self._relaxed and self._relax(last)) or self._improve()):
            return
        if self.lower < last <= spending.NEAR * self.lower and not self._relaxed and self._relax(last):
            return
        at_once: Answered = "unsat"
        led = self.lower == self._relaxed_to and self.effort == spending.FIRST_EFFORT  # I is probably feasible
        if self.lower < last <= self.lower + self.lower // spending.FEW and not led:
            at_once = self._range(last, self.effort // spending.AT_ONCE)
            if at_once == "unsat":
                self.lower = last + 1
            if at_once != "unknown":
                return
        at_lower = self._at(self.lower, self.effort)
        if at_lower == "sat":
            return
        if at_lower == "unsat":
            self.lower += 1
        if self.lower > (self._cap if worth_ii is None else min(self._cap, worth_ii)) or self.lower == self.upper:
            return
        top = min(self._cap, self.lower + self._width) if self.upper is None else (self.lower + self.upper - 1) // 2
        if worth_ii is not None:
            top = max(self.lower, min(top, worth_ii))
        closed = self._range(top, self.effort // (spending.IN_RANGE if self._relaxed else spending.AT_FIRST))
        if closed == "unknown" and not self._relaxed:
            if self._relax(last):
                return
            closed = self._range(top, self.effort // spending.IN_RANGE)
        if closed == "unsat":
            self.lower = top + 1
            self._width *= 4
        if closed == "unknown":
            self._seek(top, worth_ii)

    def _relax(self, last: int) -> bool:
        """Whether the relaxation closes some I of interest, the last of which is `last`; it is asked once."""
        self._relaxed = True
        begun = time.perf_counter()
        relaxation = Relaxation(self._problem, self._questions.open, (self.lower, last), self.limits.left)
        least = least_possible(relaxation, self.limits.left)
        if least <= last and not self._problem.large:
            relaxation.sharpen()
            least = least_possible(relaxation, self.limits.left, least)
        if least == self.lower:
            return False
        closed, seconds = (self.lower, least - 1), time.perf_counter() - begun
        self._questions.record(closed, 0, "feasible", "infeasible", relaxation.solver, seconds)
        self.lower = self._relaxed_to = least
        return True

    def _relaxation_at(self, ii: int) -> Relaxation:
        """The relaxation of this I, opened if it is not the present one."""
        if self._relaxation is None or self._relaxation.ii != (ii, ii):
            self._relaxation = Relaxation(self._problem, self._questions.open, (ii, ii), self._all.left)
        return self._relaxation

    def _least_crossing(self, e: Encoding) -> int:
        """No schedule at this I crosses for less; where the relaxation led there, it knows more than the machine."""
        if e.ii[0] != self._relaxed_to:
            return forced_crossing(e)
        r, sums = self._relaxation_at(e.ii[0]), crossing_sums(e)
        excluded = r.excluded(sums, lambda k: crossing_at_most(r.encoding, k), self.limits.left)
        return sums[min(excluded, len(sums) - 1)]

    def _seek(self, top: int, worth_ii: int | None) -> None:
        """What can be done while all of [lower, top] is too hard: a part of it, and better schedules."""
        nearer = self.lower + (top - self.lower) // 4
        if self.upper is not None and nearer < top:
            closed = self._range(nearer, self.effort // spending.IN_RANGE)
            if closed == "unsat":
                self.lower = nearer + 1
            if closed == "sat":
                return
        if not self._look_for_any(worth_ii) and not self._problem.large:
            self._improve()

    def _improve(self) -> bool:
        """Whether there is a better schedule near the best one."""
        if self.upper is None or self.pins:
            return False
        return self._neighbourhoods.improve(self.lower, spending.PATIENCE * self.effort // spending.FIRST_EFFORT)

    def _warm_start(self) -> None:
        """Take the best schedule that can be had without a question as the best so far."""
        self._warmed, over = True, self.limits.over
        starts: dict[str, Callable[[], Assignment | None]] = {
            "iterative modulo scheduling": lambda: self.starts.find(self._problem, self.lower, over, self.at_most),
            "unrolling": lambda: repeated_start(self._problem, self._smaller),
            TOGETHER: lambda: joined_start(self._problem, self._smaller),
        }
        for name, start in starts.items():
            begun, best = time.perf_counter(), start()
            if best is None or not self._problem.keeps_fixed(best) or (self.upper or best.ii + 1) <= best.ii:
                continue
            self._start_from(best, name, begun)
            self._joined = self.best if name == TOGETHER else None

    def _start_from(self, a: Assignment, name: str, begun: float) -> None:
        """A schedule that was had without a question is the best so far."""
        self._questions.record((a.ii, a.ii), 0, "feasible", "feasible", name, time.perf_counter() - begun)
        self._questions.take(a)

    def _smaller(self, graph: CostedGraph) -> Assignment | None:
        """A good schedule of a smaller loop, with a share of what is left of the budget."""
        limits, bounds = self.limits.share(spending.SMALLER_SHARE), lower_bounds(graph, self.machine)
        inner = Search(graph, self.machine, bounds, limits, open_session=self.open_session, margin=self._makes_room)
        for _ in range(spending.SMALLER_ROUNDS):
            if inner.state == "open":
                inner.advance()
        return inner.finish().assignment

    def _range(self, top: int, effort: int) -> Answered:
        """Whether some I in [lower, top] is feasible."""
        e = self._questions.about((self.lower, top))
        return self._questions.probe("feasible", 0, e.anchored(), effort)

    def _look_for_any(self, worth_ii: int | None) -> bool:
        """Look for a schedule at single values of I, where the solver has less freedom to wander."""
        tried = [self.lower + self.lower * k // 16 for k in (1, 2, 4, 8, 16)]
        if self.upper is not None:
            tried = [(self.lower + self.upper) // 2]
        for ii in tried:
            if ii > self._cap or (worth_ii is not None and ii > worth_ii):
                return False
            if self._at(ii, self._middle_effort) == "sat":
                return True
        self._middle_effort *= 2
        return False

    def _at(self, ii: int, effort: int) -> Answered:
        """Whether I = ii is feasible, if that is not known to take more effort."""
        if self._undecided.get(ii, 0) >= effort:
            return "unknown"
        answer = self._decide(ii, effort)
        if answer == "unknown":
            self._undecided[ii] = effort
        return answer

    def _decide(self, ii: int, effort: int) -> Answered:
        """Whether I = ii is feasible.

        A quick look at any number of copies finds most infeasible I at once, except where the relaxation has looked.
        Then the first few numbers of copies without avoidable crossing, which is where good schedules are; bounding
        the length keeps the solver from wandering, but is no reason to give up an I. Then anything.
        """
        q = self._questions
        e = q.about((ii, ii))
        if ii != self._relaxed_to:
            quick = q.probe("feasible", 0, e.anchored(), min(spending.QUICK_EFFORT, effort or spending.QUICK_EFFORT))
            if quick != "unknown":
                return quick
        fewest = max(1, -(-shortest_length(e) // ii))
        aligned = crossing_at_most(e, self._least_crossing(e))
        for copies in range(fewest, fewest + spending.COPIES_TRIED_FIRST):
            bound = length_at_most(e, copies * ii)
            if q.probe("feasible without avoidable crossing", copies, [bound, aligned], effort) == "sat":
                return "sat"
        for copies in range(fewest, fewest + spending.COPIES_TRIED_FIRST):
            answer = q.probe("feasible", copies, [length_at_most(e, copies * ii)], effort)
            if answer != "unsat":
                return answer
        return q.probe("feasible", 0, e.anchored(), effort)

    def _tell(self, phase: str, lower: int, upper: int | None) -> None:
        if self.progress is not None:
            self.progress(Progress(phase, lower, upper, time.perf_counter() - self._begun))
