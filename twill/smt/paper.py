"""The search as the Twill paper has it (arXiv 2512.18134, Algorithm 1), to be compared with.

For each I from the lower bound upwards: a resource-only modulo schedule first (`twill.zlp.modulo`),
of length L0; then the joint problem with I and L = L0, L0 + 1, ... for as long as ⌈L / I⌉ is
⌈L0 / I⌉; then the next I. So an I is given up as soon as it needs one iteration in flight more
than units and dependences alone do, though more of them may make it feasible: the I that is
returned need not be the smallest, and is called proven only if it meets a lower bound.
`twill.smt.search` gives up an I only when no number of copies makes it feasible.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.document import Bounds, Certificate, SolverStep, Verdict
from twill.smt.assignment import Assignment
from twill.smt.boolean import SOLVER, solve_boolean
from twill.smt.limits import Limits
from twill.smt.outcome import Outcome, Progress
from twill.zlp.bounds import lower_bounds
from twill.zlp.largest import largest_ii
from twill.zlp.modulo import ModuloSchedule, modulo_schedule

MODULO_SOLVER = "modulo schedule ILP"


def paper_search(
    graph: CostedGraph,
    machine: Machine,
    limits: Limits | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """The first schedule that the paper's loop comes upon; no assignment if it finds none or time ran out.

    Only `limits.seconds` applies. `infeasible` stays False: the loop gives up without a proof.
    Raises ImpossibleCycle (twill.exc).
    """
    return _PaperSearch(graph, machine, lower_bounds(graph, machine), limits or Limits(), progress).run()


@dataclass
class _PaperSearch:
    graph: CostedGraph
    machine: Machine
    bounds: Bounds
    limits: Limits
    progress: Callable[[Progress], None] | None
    steps: list[SolverStep] = field(default_factory=list)
    lower: int = 1
    begun: float = field(default_factory=time.perf_counter)

    def run(self) -> Outcome:
        self.lower = ii = self.bounds.best
        if ii > 1:
            self.record((1, ii - 1), 0, self.bounds.witness, "bound", "lower bounds", 0.0)
        last = max(largest_ii(self.graph), ii)
        while ii <= last:
            resource_only = modulo_schedule(self.graph, least_ii=ii, seconds=self.seconds_left())
            self.note(ii, resource_only.lower_bound, resource_only.seconds)
            if not isinstance(resource_only, ModuloSchedule):
                break
            ii = resource_only.ii
            found = self.lengthen(resource_only)
            if found is not None:
                return self.outcome(found, resource_only)
            if self.steps[-1].verdict == "unknown":
                break
            ii += 1
        return self.outcome(None, None)

    def note(self, least: int, proven: int, seconds: float) -> None:
        """The ILP refuted every I in [least, proven)."""
        if proven > least:
            self.record((least, proven - 1), 0, "feasible", "infeasible", MODULO_SOLVER, seconds)
        if least == self.lower:
            self.lower = proven

    def lengthen(self, resource_only: ModuloSchedule) -> Assignment | None:
        """The joint problem with growing L, within the copies of the resource-only schedule."""
        ii, copies = resource_only.ii, resource_only.copies
        for length in range(resource_only.length, copies * ii + 1):
            if self.progress is not None:
                self.progress(Progress(f"length at I = {ii}", length, copies * ii, time.perf_counter() - self.begun))
            left = self.seconds_left()
            answer = solve_boolean(self.graph, self.machine, ii, length, float("inf") if left is None else left)
            verdicts: dict[str, Verdict] = {"sat": "feasible", "unsat": "infeasible", "unknown": "unknown"}
            verdict = verdicts[answer.outcome]
            self.record((ii, ii), copies, f"length <= {length}", verdict, SOLVER, answer.seconds)
            if answer.outcome != "unsat":
                return answer.assignment
        return None

    def outcome(self, a: Assignment | None, resource_only: ModuloSchedule | None) -> Outcome:
        certificate = Certificate(
            bounds=self.bounds,
            steps=tuple(self.steps),
            optimal=False,
            lower_bound=self.lower,
            seed=0,
            resource_limit=0,
            budget_seconds=self.limits.seconds,
        )
        if a is None or resource_only is None:
            return Outcome(None, None, certificate, infeasible=False)
        proven: list[str] = []
        if a.ii == self.lower:
            # A warp-free schedule is never longer than a joint one, so its copies are the fewest.
            proven = ["ii", "copies"] if resource_only.proven_length else ["ii"]
        return Outcome(a, a.objective(proven), certificate, infeasible=False)

    def record(self, ii: tuple[int, int], copies: int, question: str, verdict: Verdict, solver: str, s: float) -> None:
        self.steps.append(
            SolverStep(
                ii=ii[0], ii_to=ii[1], copies=copies, question=question, verdict=verdict, solver=solver, seconds=s
            )
        )

    def seconds_left(self) -> float | None:
        if self.limits.seconds is None:
            return None
        return max(0.0, self.limits.seconds - (time.perf_counter() - self.begun))
