"""The search: I, copies, crossing, length, registers, in this order, each proven minimal.

I starts at its best lower bound. A value of I is given up only when no number of copies makes it
feasible (the paper's loop gives it up earlier and can miss the optimum). Infeasibility need not
be monotone in I, so a failed start is followed by questions about whole ranges of I, with I an
unknown: an unsatisfiable range is closed for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from twill.graph.costed import CostedGraph
from twill.machine import Machine
from twill.schedule import Bounds, Certificate, Objective, Step, Verdict
from twill.smt.assignment import Assignment, read_assignment
from twill.smt.backend import Session, Z3Session
from twill.smt.encoding import Encoding
from twill.smt.lazy import LazyRules
from twill.smt.lemmas import NeverCross
from twill.smt.pins import Pin, assert_pins
from twill.smt.rules import assert_rules
from twill.zlp.heuristic import heuristic_schedule
from twill.zlp.slots import slots_of


@dataclass(frozen=True)
class Limits:
    """Budgets of a solve. seconds: wall clock for all of it, counted from `began` (a value of
    `time.perf_counter`; None: from when the search is made); resource_limit: z3's deterministic
    counter for each check (0: none); seed: of the solver's random choices."""

    seconds: float | None = None
    resource_limit: int = 0
    seed: int = 0
    began: float | None = None

    def left(self) -> float | None:
        """Seconds left (not below 0), or None if there is no limit."""
        if self.seconds is None:
            return None
        assert self.began is not None
        return max(0.0, self.seconds - (time.perf_counter() - self.began))

    def counting(self) -> Limits:
        """The same, with the clock running."""
        return self if self.began is not None else replace(self, began=time.perf_counter())


@dataclass(frozen=True)
class Progress:
    """What the search knows now: the phase's objective lies in [lower, upper] (upper None: open)."""

    phase: str
    lower: int
    upper: int | None
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """The best assignment found (None if none was), its objective and the certificate.

    infeasible: proven that no I works at all. Otherwise `certificate.optimal` tells whether every
    objective was proven.
    """

    assignment: Assignment | None
    objective: Objective | None
    certificate: Certificate
    infeasible: bool


Outcome3 = Literal["sat", "unsat", "unknown"]
State = Literal["open", "found", "infeasible", "out of budget"]


class _OutOfBudget(Exception):
    """A check came back unknown."""


@dataclass
class Search:
    """One loop's search.

    ii: only this I is asked about. fixed: instruction id -> slot id that it must be in. floors:
    registers per thread by slot that are taken anyway. warm: start from what the heuristic finds,
    if it respects all this.
    """

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
    steps: list[Step] = field(default_factory=list)
    best: Assignment | None = None
    proven: list[str] = field(default_factory=list)
    state: State = "open"
    lower: int = 1
    warm: bool = True
    effort: int = 0  # of the solver's counter for each question of the next round
    _warmed: bool = False
    _opened: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._begun = time.perf_counter()
        self.limits = self.limits.counting()
        self._phase = "ii"
        self.lower = self.ii or self.bounds.best
        pinned = sum(p.value for p in self.pins if p.key == "start")
        self._cap = self.ii or max(largest_ii(self.graph) + pinned, self.lower)
        self._width = max(16, self.lower // 16)
        self.effort = FIRST_EFFORT
        self._never_cross = NeverCross(self.graph, self.machine, self._session, self.fixed)
        self._warmed = not self.warm or bool(self.ii or self.pins)
        if self.bounds.best > 1:
            self._record((1, self.bounds.best - 1), 0, self.bounds.witness, "bound", "lower bounds", 0.0)

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
        if not self._warmed and (worth_ii is None or worth_ii > self.lower):
            self._warm_start()
        before = (self.lower, self.upper)
        try:
            if self.upper != self.lower:
                self._round(worth_ii)
        except _OutOfBudget:
            self.state = "out of budget"
            return
        if self.upper == self.lower:
            self.state = "found"
        elif self.lower > self._cap:
            self.state = "infeasible"
        elif before == (self.lower, self.upper):
            self.effort *= EFFORT_GROWTH

    @property
    def upper(self) -> int | None:
        """I of the best schedule so far."""
        return None if self.best is None else self.best.ii

    def finish(self) -> Outcome:
        """The outcome, after minimizing the objectives behind I if I was found."""
        if self.state == "found":
            try:
                self._minimize()
            except _OutOfBudget:
                self.state = "out of budget"
        lower = self.lower
        if self.ii is not None and self.ii > self.bounds.best:  # smaller I were not asked about
            lower = self.bounds.best
            self.proven.clear()
        optimal = self.best is not None and len(self.proven) == len(OBJECTIVES)
        certificate = Certificate(
            bounds=self.bounds,
            steps=tuple(self.steps),
            optimal=optimal,
            lower_bound=lower,
            seed=self.limits.seed,
            resource_limit=self.limits.resource_limit,
            budget_seconds=self.limits.seconds,
        )
        return Outcome(self.best, self._objective(), certificate, self.state == "infeasible")

    # -- the objectives in order ---------------------------------------------------------------

    def _minimize(self) -> None:
        self.proven.append("ii")
        if self._opened != (self.lower, self.lower):
            self._open((self.lower, self.lower))
        self._find_copies()
        forced = forced_crossing(self._encoding)
        self._descend("crossing", forced, lambda a: a.crossing, lambda k: [crossing_at_most(self._encoding, k)])
        shortest = shortest_length(self._encoding)
        self._descend("length", shortest, lambda a: a.length, lambda k: [length_at_most(self._encoding, k)])
        granule = self.machine.register_file.granule
        fewest = min(s.context.min_registers for s in self._encoding.slots)
        self._descend("registers", fewest, self._budgets, self._registers_at_most, granule)

    def _round(self, worth_ii: int | None) -> None:
        """The questions of one round: this I, then a range from it, then where a schedule may be easy to find."""
        self._report(self.upper)
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
        closed = self._range(top)
        if closed == "unsat":
            self.lower = top + 1
            self._width *= 4
        if closed == "unknown":
            self._look_for_any(worth_ii)

    def _warm_start(self) -> None:
        """Take the heuristic's schedule as the best so far."""
        self._warmed = True
        begun = time.perf_counter()
        found = heuristic_schedule(self.graph, self.machine, self.lower, HEURISTIC_TRIES)
        seconds = time.perf_counter() - begun
        if found is None:
            return
        slots = slots_of(self.machine)
        best = Assignment(self.graph, self.machine, slots, found.ii, found.start, found.group)
        if not self._keeps_fixed(best):
            return
        self.best = best
        self._record((found.ii, found.ii), 0, "feasible", "feasible", "iterative modulo scheduling", seconds)

    def _keeps_fixed(self, a: Assignment) -> bool:
        """Whether an assignment that knows nothing of `fixed` and `floors` respects them."""
        if any(a.slot[v] != slot for v, slot in self.fixed.items()):
            return False
        budgets = {s.id: a.budget(s.id) for s in a.used}
        for slot, floor in self.floors.items():
            budgets[slot] = max(floor, budgets.get(slot, 0))
        threads = sum(a.slots[slot].context.threads * budget for slot, budget in budgets.items())
        return threads <= self.machine.register_file.registers.value

    def _range(self, top: int) -> Outcome3:
        """Whether some I in [lower, top] is feasible."""
        self._open((self.lower, top))
        return self._probe("feasible", 0, _anchored(self._encoding), self.effort)

    def _look_for_any(self, worth_ii: int | None) -> None:
        """Look for a schedule at single values of I, where the solver has less freedom to wander."""
        if self.upper is not None:
            tried = [(self.lower + self.upper) // 2]
        else:
            tried = [self.lower + self.lower * k // 16 for k in (1, 2, 4, 8, 16)]
        for ii in tried:
            if ii > self._cap or (worth_ii is not None and ii > worth_ii):
                return
            if self._at(ii, self.effort) == "sat":
                return

    def _at(self, ii: int, effort: int) -> Outcome3:
        """Whether I = ii is feasible.

        A quick look at any number of copies finds most infeasible I at once. Then the first few
        numbers of copies without avoidable crossing, which is where good schedules are; bounding the
        length keeps the solver from wandering, but is no reason to give up an I. Then anything.
        """
        self._open((ii, ii))
        e = self._encoding
        quick = self._probe("feasible", 0, _anchored(e), min(QUICK_EFFORT, effort) if effort else QUICK_EFFORT)
        if quick != "unknown":
            return quick
        fewest = max(1, -(-shortest_length(e) // ii))
        aligned = crossing_at_most(e, forced_crossing(e))
        for copies in range(fewest, fewest + COPIES_TRIED_FIRST):
            bound = length_at_most(e, copies * ii)
            if self._probe("feasible without avoidable crossing", copies, [bound, aligned], effort) == "sat":
                return "sat"
        for copies in range(fewest, fewest + COPIES_TRIED_FIRST):
            answer = self._probe("feasible", copies, [length_at_most(e, copies * ii)], effort)
            if answer != "unsat":
                return answer
        return self._probe("feasible", 0, _anchored(e), effort)

    def _find_copies(self) -> None:
        """Fewest copies at the minimal I."""
        ii = self._found.ii
        fewest = max(1, -(-shortest_length(self._encoding) // ii))
        self._descend("copies", fewest, lambda a: a.copies, lambda k: [length_at_most(self._encoding, k * ii)])

    def _descend(
        self,
        name: str,
        lower: int,
        value: Callable[[Assignment], int],
        at_most: Callable[[int], list[str]],
        granule: int = 1,
    ) -> None:
        """Minimize value(assignment) >= lower, then fix it.

        The lower bound first, then by bisection; after a refusal just below what is known, which is
        often the optimum already.
        """
        self._phase = name
        upper = value(self._found)
        probe = lower
        while lower < upper:
            self._report(upper, lower)
            found = self._ask(f"{name} <= {probe}", self._found.copies, at_most(probe))
            middle = lower + (upper - lower) // 2 // granule * granule
            if found is not None:
                upper = value(found)
                probe = lower + (upper - lower) // 2 // granule * granule
                continue
            below = upper - granule
            lower = probe + granule
            probe = below if probe in (middle, lower - granule) and probe != below else middle
            probe = max(lower, min(probe, upper - granule))
        self._keep(at_most(upper))
        self.proven.append(name)

    # -- one question ---------------------------------------------------------------------------

    @property
    def _found(self) -> Assignment:
        assert self.best is not None
        return self.best

    def _open(self, ii: tuple[int, int]) -> None:
        if self._opened == ii:
            return
        self._opened = ii
        session = self._session()
        pinned = bool(self.pins or self.fixed or self.floors)
        named = any(p.names_group for p in self.pins) or bool(self.fixed or self.floors)
        self._encoding = Encoding(self.graph, self.machine, session, ii, pinned=pinned, named_slots=named)
        self._lazy = LazyRules(self._encoding)
        assert_rules(self._encoding)
        assert_pins(self._encoding, self.pins)
        self._assert_fixed()
        if self.upper is not None:
            self._never_cross.learn(self.upper)
        for x in self._never_cross.up_to(ii[1]):
            self._encoding.add(self._encoding.stays(self._encoding.value(x)))
        self._encoding.flush()

    def _session(self) -> Session:
        return self.open_session() if self.open_session else Z3Session(self.limits.seed)

    def _assert_fixed(self) -> None:
        e, granule = self._encoding, self.machine.register_file.granule
        for v, slot in self.fixed.items():
            e.add(e.member(v, e.slots[slot]))
        for slot, registers in self.floors.items():
            e.add(f"(and used{slot} (<= {-(-registers // granule)} b{slot}))")

    def _keep(self, terms: Sequence[str]) -> None:
        for term in terms:
            self._encoding.add(term)
        self._encoding.flush()

    def _ask(self, question: str, copies: int, extra: Sequence[str] = ()) -> Assignment | None:
        """An assignment that also satisfies `extra`, or None if there is none. Raises when out of budget."""
        answer = self._probe(question, copies, extra, self.limits.resource_limit)
        if answer == "unknown":
            raise _OutOfBudget
        return self.best if answer == "sat" else None

    def _probe(self, question: str, copies: int, extra: Sequence[str], effort: int) -> Outcome3:
        """Ask with at most `effort` (z3's resource counter, 0: no limit); a model becomes `best`."""
        begun = time.perf_counter()
        e = self._encoding
        while True:
            e.flush()
            answer = e.session.check(extra, seconds=self.limits.left(), effort=effort)
            if answer.outcome != "sat":
                break
            a = read_assignment(e, answer.values)
            granule = self.machine.register_file.granule
            budgets = {s.id: granule * answer.values.get(f"b{s.id}", 0) for s in a.used}
            if not self._lazy.refine(a, budgets):
                self.best = a
                break
        seconds = time.perf_counter() - begun
        self._record(e.ii, copies, question, _VERDICTS[answer.outcome], e.session.name, seconds)
        left = self.limits.left()
        if answer.outcome == "unknown" and left is not None and left <= 0:
            raise _OutOfBudget
        if answer.outcome == "unknown" and effort and effort == self.limits.resource_limit:
            raise _OutOfBudget
        return answer.outcome

    def _budgets(self, a: Assignment) -> int:
        """Summed budgets, with those that are taken anyway."""
        used = {s.id for s in a.used} | set(self.floors)
        return sum(max(self.floors.get(s, 0), a.budget(s) if s in a.slot else 0) for s in used)

    def _registers_at_most(self, total: int) -> list[str]:
        granule = self.machine.register_file.granule
        terms = [f"(ite used{s.id} b{s.id} 0)" for s in self._encoding.slots]
        return [f"(<= (+ 0 {' '.join(terms)}) {total // granule})"]

    # -- bookkeeping ----------------------------------------------------------------------------

    def _record(self, ii: tuple[int, int], copies: int, question: str, verdict: Verdict, solver: str, s: float) -> None:
        self.steps.append(
            Step(ii=ii[0], ii_to=ii[1], copies=copies, question=question, verdict=verdict, solver=solver, seconds=s)
        )

    def _report(self, upper: int | None, lower: int | None = None) -> None:
        if self.progress is not None:
            low = self.lower if lower is None else lower
            self.progress(Progress(self._phase, low, upper, time.perf_counter() - self._begun))

    def _objective(self) -> Objective | None:
        a = self.best
        if a is None:
            return None
        return Objective(
            ii=a.ii,
            copies=a.copies,
            crossing=a.crossing,
            length=a.length,
            registers=a.registers,
            proven=tuple(self.proven),
        )


COPIES_TRIED_FIRST = 3
HEURISTIC_TRIES = 3
FIRST_EFFORT = 20_000_000  # z3's resource counter: a few seconds
QUICK_EFFORT = 1_000_000
EFFORT_GROWTH = 4
_VERDICTS: dict[str, Verdict] = {"sat": "feasible", "unsat": "infeasible", "unknown": "unknown"}
OBJECTIVES = ("ii", "copies", "crossing", "length", "registers")


def shortest_length(e: Encoding) -> int:
    """A lower bound on L: the longest path of same-iteration dependences, forced crossings included."""
    graph = e.graph
    earliest = [0] * len(graph.instructions)
    for _ in graph.instructions:
        changed = False
        for d in graph.edges:
            if d.distance:
                continue
            forced = d.crossing if e.same(d.src, d.dst) == "false" else 0
            t = earliest[d.src] + d.delay + forced
            if t > earliest[d.dst]:
                earliest[d.dst], changed = t, True
        if not changed:
            break
    return max(t + i.latency for t, i in zip(earliest, graph.instructions, strict=True))


def largest_ii(graph: CostedGraph) -> int:
    """An I beyond which feasibility cannot change.

    Give every instruction the interval from its start over all it causes (hold, unit use, delay,
    crossing, spill). At an I above the sum of these, some cycle modulo I lies in none of them;
    leaving it out of the schedule shortens I by one and breaks no rule.
    """
    total = 0
    for i in graph.instructions:
        delays = [d.delay + d.crossing for d in graph.edges if d.src == i.id]
        spills = [i.latency + v.spill for v in graph.values if v.producer == i.id]
        uses = [u.start + u.cycles for u in i.uses]
        total += max([1, i.hold, i.latency, *delays, *spills, *uses])
    return total


def length_at_most(e: Encoding, length: int) -> str:
    """Every instruction completes by `length` (fixed I)."""
    ii = e.ii[0]
    terms = []
    for i in e.graph.instructions:
        latest = length - i.latency
        if latest < 0:
            return "false"
        p = e.start(i.id)
        stage, row = divmod(latest, ii)
        terms.append(f"(<= {p.stage} {stage})")
        terms.append(f"(or (< {p.stage} {stage}) (<= {p.row} {row}))")
    return f"(and {' '.join(terms)})"


def forced_crossing(e: Encoding) -> int:
    """Crossing cycles of the value edges whose ends can never share a warp group."""
    return sum(d.crossing for d in e.graph.edges if d.kind == "value" and e.same(d.src, d.dst) == "false")


def crossing_at_most(e: Encoding, cycles: int) -> str:
    """The value edges between warp groups cost at most `cycles`."""
    weights: dict[str, int] = {}
    forced = 0
    for d in e.graph.edges:
        if d.kind != "value" or not d.crossing:
            continue
        same = e.same(d.src, d.dst)
        if same == "false":
            forced += d.crossing
        elif same != "true":
            weights[same] = weights.get(same, 0) + d.crossing
    terms = [f"(ite {literal} 0 {weight})" for literal, weight in weights.items()]
    return f"(<= (+ {forced} 0 {' '.join(terms)}) {cycles})"


def _anchored(e: Encoding) -> list[str]:
    """Row 0 is where the first instruction starts: with no bound on L, time can be rotated freely."""
    return [f"(= {e.start(0).row} 0)"] if e.rotates else []


def outcome_without_times(outcome: Outcome) -> Outcome:
    """The same outcome with every measured time set to zero (for comparisons)."""
    steps = tuple(s.model_copy(update={"seconds": 0.0}) for s in outcome.certificate.steps)
    return replace(outcome, certificate=outcome.certificate.model_copy(update={"steps": steps}))
