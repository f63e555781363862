"""Ways to schedule a loop: the joint solve, and the baselines that it is compared with.

joint       the search of `twill.smt.search`: objectives proven minimal, in their order
paper       the search of the Twill paper (`twill.smt.paper`), Boolean encoding
heuristic   iterative modulo scheduling after a load/compute split of warps (`twill.zlp.heuristic`)
none        no pipelining: one iteration at a time, in program order (`twill.zlp.sequential`)

Every one takes a costed graph and gives an `Outcome`; docs/comparing-strategies.md says what each is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from twill.graph.costed import CostedGraph
from twill.graph.mma_hazards import is_mma
from twill.machine.description import Machine
from twill.machine.occupancy import register_pool
from twill.schedule.document import Bounds, Certificate, Objective, SolverStep, Strategy, Verdict
from twill.smt.assignment import Assignment
from twill.smt.limits import Limits
from twill.smt.outcome import Outcome, Progress
from twill.smt.paper import paper_search
from twill.zlp import grouping
from twill.zlp.heuristic import HeuristicSchedule, heuristic_schedule
from twill.zlp.memory_use import MemoryUse
from twill.zlp.relief import relieved
from twill.zlp.sequential import sequential_schedule
from twill.zlp.slots import slots_of
from twill.zlp.ties import renamed, tied

SOLVERS = {"heuristic": "iterative modulo scheduling", "none": "program order"}

Notify = Callable[[Progress], None]
Fits = Callable[[HeuristicSchedule], bool]
WORD = 4  # bytes of a register


@dataclass
class Baseline:
    """One loop scheduled by a strategy other than joint, in one step; to be driven as a `Search` is.

    fixed: instruction id -> slot id that it must be in. floors: registers per thread by slot that are taken
    anyway. lower: a bound on I before, the I that was found after.
    """

    strategy: Strategy
    graph: CostedGraph
    machine: Machine
    bounds: Bounds
    limits: Limits = field(default_factory=Limits)
    fixed: Mapping[int, int] = field(default_factory=dict)
    floors: Mapping[int, int] = field(default_factory=dict)
    progress: Notify | None = None
    state: Literal["open", "found", "gave up"] = "open"
    lower: int = 1
    effort: int = 0

    def __post_init__(self) -> None:
        self._begun = time.perf_counter()
        self._outcome: Outcome | None = None
        self.lower = self.bounds.best

    @property
    def best(self) -> Assignment | None:
        """The schedule, once it was looked for and found."""
        return None if self._outcome is None else self._outcome.assignment

    def run(self) -> Outcome:
        """The schedule, if one is found."""
        if self.state == "open":
            self.advance()
        return self.finish()

    def advance(self, worth_ii: int | None = None) -> None:
        """Do all of it; `worth_ii` is of no use to a strategy that goes its own way."""
        self._report(None)
        outcome = self._paper() if self.strategy == "paper" else self._quick()
        a = outcome.assignment
        if a is not None and not a.fits(self.floors):
            outcome = replace(outcome, assignment=None, objective=None)
        self._outcome = outcome
        self.state = "found" if outcome.assignment is not None else "gave up"
        if outcome.assignment is not None:
            self.lower = outcome.assignment.ii
            self._report(self.lower)

    def finish(self) -> Outcome:
        """What was found."""
        assert self._outcome is not None
        return self._outcome

    @property
    def timed_out(self) -> bool:
        """Whether the seconds are used up."""
        return self.limits.seconds is not None and self._seconds() >= self.limits.seconds

    def _paper(self) -> Outcome:
        left = None if self.limits.seconds is None else max(0.0, self.limits.seconds - self._seconds())
        outcome = paper_search(self.graph, self.machine, replace(self.limits, seconds=left), self.progress)
        a = outcome.assignment
        if a is None or not self.fixed:
            return outcome
        slots = slots_of(self.machine)
        groups = renamed(a.slot, slots, self.fixed)
        if groups is None:
            return replace(outcome, assignment=None, objective=None)
        return replace(outcome, assignment=replace(a, slot=groups))

    def _quick(self) -> Outcome:
        """One of the two that run for a moment and prove nothing."""
        begun = time.perf_counter()
        graph, slots = tied(self.graph, self.fixed), slots_of(self.machine)
        least = self.bounds.best
        if self.strategy == "heuristic":
            found = heuristic_schedule(graph, self.machine, least)
        else:
            choices = [renamed(g, slots, self.fixed) for g in grouping.proposals(graph, self.machine, least)]
            groups_of = [g for g in choices if g is not None]
            found = self._sequential(graph, groups_of, self._has_room) or self._sequential(graph, groups_of)
            of_one_width = any(map(is_mma, graph.instructions)) or bool(self.floors)  # others get more threads
            if found is None and of_one_width:
                moved = relieved(graph, self.machine, groups_of, self.fixed)
                found = sequential_schedule(graph, self.machine, moved, thrifty=True, fits=self._launches)
        groups = None if found is None else renamed(found.group, slots, self.fixed)
        seconds = time.perf_counter() - begun
        if found is None or groups is None:
            return Outcome(None, None, self._certificate(None, "unknown", seconds), infeasible=False)
        a = Assignment(self.graph, self.machine, slots, found.ii, found.start, groups)
        objective = Objective(
            ii=a.ii, copies=a.copies, crossing=a.crossing, length=a.length, registers=a.registers, proven=()
        )
        return Outcome(a, objective, self._certificate(a, "feasible", seconds), infeasible=False)

    def _sequential(
        self, graph: CostedGraph, choices: Sequence[grouping.Groups], fits: Fits = lambda found: True
    ) -> HeuristicSchedule | None:
        """One iteration at a time in one of these warp groups, in the order of the program or in thrifty ones."""

        def both(found: HeuristicSchedule) -> bool:
            return self._launches(found) and fits(found)

        for thrifty in (False, True):
            found = sequential_schedule(graph, self.machine, choices, thrifty, both)
            if found is not None:
                return found
        return None

    def _has_room(self, found: HeuristicSchedule) -> bool:
        """Whether shared memory has room for a slot of each tile that goes from warp group to warp group, which the
        model counts in registers alone, beside those that it counts."""
        use, groups = MemoryUse(self.graph, self.machine, slots_of(self.machine), found.group), found.group
        away = [value for value in use.free if any(groups[r.reader] != groups[value.producer] for r in value.reads)]
        threads = {value.id: use.slots[groups[value.producer]].context.threads for value in away}
        handed = sum(WORD * value.registers * threads[value.id] for value in away if value.space == "register")
        return handed + sum(value.bytes for value in use.free if value.space == "shared") <= use.room["shared"]

    def _certificate(self, a: Assignment | None, verdict: Verdict, seconds: float) -> Certificate:
        least, solver = self.bounds.best, SOLVERS[self.strategy]
        ii = least if a is None else a.ii
        asked = SolverStep(
            ii=ii, ii_to=ii, copies=0, question="feasible", verdict=verdict, solver=solver, seconds=seconds
        )
        below = SolverStep(
            ii=1, ii_to=least - 1, copies=0, question=self.bounds.witness, verdict="bound", solver="lower bounds",
            seconds=0.0,
        )  # fmt: skip
        return Certificate(
            bounds=self.bounds,
            steps=(below, asked) if least > 1 else (asked,),
            optimal=False,
            lower_bound=least,
            seed=self.limits.seed,
            resource_limit=0,
            budget_seconds=self.limits.seconds,
        )

    def _launches(self, found: HeuristicSchedule) -> bool:
        """Whether a launch can hand out the budgets, those of groups of the loops before this one among them: it begins
        with as many registers in each thread."""
        groups = renamed(found.group, slots_of(self.machine), self.fixed)
        if groups is None or self.machine.emission is None:
            return groups is not None
        budgets = {new: found.budgets[old] for old, new in zip(found.group, groups, strict=True)}
        every = {slot: max(self.floors.get(slot, 0), budgets.get(slot, 0)) for slot in {*self.floors, *budgets}}
        threads = {slot: slots_of(self.machine)[slot].context.threads for slot in every}
        pool = register_pool(sum(threads.values()), self.machine)
        return sum(threads[slot] * budget for slot, budget in every.items()) <= pool

    def _seconds(self) -> float:
        return time.perf_counter() - self._begun

    def _report(self, upper: int | None) -> None:
        if self.progress is not None:
            self.progress(Progress("ii", self.lower, upper, self._seconds()))
