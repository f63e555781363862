"""What `benchmarks/solve.py` measures: one solve, and one question put to both encodings."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from twill.exc import BudgetExhausted, NormalizeTooCoarse, TwillError
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import LoopSchedule, Schedule, SolverStep
from twill.smt.assignment import read_assignment
from twill.smt.backend import Outcome, Z3Session
from twill.smt.boolean import solve_boolean
from twill.smt.encoding import Encoding
from twill.smt.lazy import LazyRules
from twill.smt.limits import Limits
from twill.smt.objectives import length_at_most
from twill.smt.paper import paper_search
from twill.smt.rules import assert_rules
from twill.smt.search import Search
from twill.solve.pipeline import Report, SolveOptions, main_region, solve
from twill.zlp.bounds import lower_bounds
from twill.zlp.normalize import normalize

PHASES = ("ii", "copies", "crossing", "length", "registers", "other")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Times:
    """Wall-clock seconds of equal runs, in the order they were made."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of them."""
        return statistics.median(self.seconds)

    @property
    def typical(self) -> int:
        """Which run is nearest to the median."""
        return min(range(len(self.seconds)), key=lambda n: abs(self.seconds[n] - self.median))


@dataclass(frozen=True)
class Solved:
    """The solve of one kernel with exact costs.

    status: "optimal", "budget" (the best schedule found, if any, is not proven) or "refused".
    phases: seconds of the run nearest to the median, by objective; "other" is costing, bounds,
    further cooperations and loops, and the check.
    """

    status: str
    message: str
    times: Times
    schedule: Schedule | None
    lower_bound: int
    phases: dict[str, float]


@dataclass(frozen=True)
class Asked:
    """One question (I, L) put to one encoding. outcome: "sat", "unsat", "unknown" if the time ran out.

    seconds: of building and deciding, all runs; deciding: of deciding alone, the run nearest to the median (Boolean
    encoding only). variables, clauses: of the Boolean encoding, else 0.
    """

    outcome: Outcome
    times: Times
    deciding: float = 0.0
    variables: int = 0
    clauses: int = 0


@dataclass(frozen=True)
class Loop:
    """The paper's search: the schedule it stopped at (None if it did not finish), and its time."""

    ii: int | None
    copies: int | None
    length: int | None
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """Both encodings on one graph: is there a schedule of `ii` with L <= length, and with L <= length - 1?

    units: the U that the graph was normalized at, None for exact cycles. reason: why there is no
    answer, "" if there is.
    """

    units: int | None
    worst_error: float
    reason: str
    ii: int = 0
    copies: int = 0
    length: int = 0
    compact: tuple[Asked, ...] = ()
    boolean: tuple[Asked, ...] = ()  # the paper's form, as printed
    paper: Loop | None = None
    joint: Times | None = None  # of the whole joint solve of the same graph, where the paper's search was run

    @property
    def finished(self) -> bool:
        """Whether the Boolean encoding answered both questions."""
        return not self.reason and all(a.outcome != "unknown" for a in self.boolean)


# -- the solve ------------------------------------------------------------------------------------


def measure_solve(graph: DependenceGraph, machine: Machine, repeat: int, tell: Tell, options: SolveOptions) -> Solved:
    """Solve `repeat` times with exact costs; once only if the budget ends it."""
    seconds: list[float] = []
    found: list[Schedule] = []
    for run in range(repeat):
        begun = time.perf_counter()

        def progress(report: Report, run: int = run) -> None:
            p = report.progress
            tell(f"run {run + 1} of {repeat}: {p.phase} in [{p.lower}, {'?' if p.upper is None else p.upper}]")

        tell(f"run {run + 1} of {repeat}")
        try:
            found.append(solve(graph, machine, options, progress))
        except BudgetExhausted as ended:
            times = Times((time.perf_counter() - begun,))
            best = ended.schedule if isinstance(ended.schedule, Schedule) else None
            phases = phases_of(main_loop(best, graph).certificate.steps, times.median) if best else {}
            return Solved("budget", ended.message, times, best, ended.lower_bound, phases)
        except TwillError as refused:
            times = Times((time.perf_counter() - begun,))
            return Solved("refused", refused.message, times, None, 1, {})
        seconds.append(time.perf_counter() - begun)
    times = Times(tuple(seconds))
    schedule = found[times.typical]
    different = {s.objective for s in found} != {schedule.objective}
    message = "runs found different objectives" if different else ""
    phases = phases_of(main_loop(schedule, graph).certificate.steps, seconds[times.typical])
    return Solved("optimal", message, times, schedule, schedule.certificate.lower_bound, phases)


def main_loop(schedule: Schedule, graph: DependenceGraph) -> LoopSchedule:
    """The schedule of the loop with the most work."""
    region = main_region(graph).id
    return next(loop for loop in schedule.loops if loop.loop == region)


def phases_of(steps: tuple[SolverStep, ...], total: float) -> dict[str, float]:
    """Seconds by what a step was asked for; what is left of `total` is "other"."""
    spent = dict.fromkeys(PHASES, 0.0)
    for step in steps:
        name = step.question.split(" ", 1)[0]
        spent[name if name in spent else "ii"] += step.seconds
    spent["other"] = max(0.0, total - sum(spent.values()))
    return spent


# -- both encodings -------------------------------------------------------------------------------


def compare(
    graph: CostedGraph, machine: Machine, units: int | None, repeat: int, budget: float, paper: bool, tell: Tell
) -> Comparison:
    """Put the shortest L of the least I, and one less, to both encodings; `budget` seconds a question."""
    label = "exact" if units is None else f"U = {units}"
    try:
        asked = graph if units is None else normalize(graph, units)
    except NormalizeTooCoarse as coarse:
        return Comparison(units, 0.0, coarse.message)
    error = asked.normalization.worst_error if asked.normalization else 0.0
    tell(f"{label}: the least I")
    joint: list[float] = []
    for _ in range(repeat if paper else 1):
        begun = time.perf_counter()
        best = Search(asked, machine, lower_bounds(asked, machine), Limits(seconds=budget)).run().objective
        joint.append(time.perf_counter() - begun)
    if best is None or "copies" not in best.proven:
        return Comparison(units, error, f"the compact encoding did not prove I and copies in {budget:g} s")
    length = shortest(asked, machine, best.ii, (best.copies - 1) * best.ii, best.length, budget, tell)
    if length is None:
        return Comparison(units, error, f"the compact encoding did not prove the shortest L in {budget:g} s", best.ii)
    compact, boolean = [], []
    for longest in (length, length - 1):
        tell(f"{label}: I = {best.ii}, L <= {longest}, compact")
        compact.append(ask(decide, asked, machine, best.ii, longest, repeat, budget))
        tell(f"{label}: I = {best.ii}, L <= {longest}, Boolean")
        boolean.append(ask(decide_printed, asked, machine, best.ii, longest, repeat, budget))
        if boolean[-1].outcome == "unknown":
            break
    loop = None
    if paper:
        tell(f"{label}: the paper's search")
        loop = paper_loop(asked, machine, budget)
    return Comparison(units, error, "", best.ii, best.copies, length, tuple(compact), tuple(boolean),
                      loop, Times(tuple(joint)) if paper else None)  # fmt: skip


def shortest(
    graph: CostedGraph, machine: Machine, ii: int, too_short: int, enough: int, budget: float, tell: Tell
) -> int | None:
    """The least L at `ii`, known to lie in (too_short, enough]; None if the budget ends."""
    while enough - too_short > 1:
        tell(f"shortest L at I = {ii}: in ({too_short}, {enough}]")
        middle = (too_short + enough) // 2
        outcome = decide(graph, machine, ii, middle, budget).outcome
        if outcome == "unknown":
            return None
        too_short, enough = (too_short, middle) if outcome == "sat" else (middle, enough)
    return enough


def ask(
    decider: Callable[[CostedGraph, Machine, int, int, float], Asked],
    graph: CostedGraph,
    machine: Machine,
    ii: int,
    length: int,
    repeat: int,
    budget: float,
) -> Asked:
    """One question `repeat` times, less often if that takes more than the budget, once only if the budget ends it."""
    answers: list[Asked] = []
    while True:
        answers.append(decider(graph, machine, ii, length, budget))
        times = Times(tuple(a.times.median for a in answers))
        if answers[-1].outcome == "unknown" or len(answers) >= repeat or sum(times.seconds) >= budget:
            return replace(answers[-1], times=times, deciding=answers[times.typical].deciding)


def decide(graph: CostedGraph, machine: Machine, ii: int, length: int, budget: float) -> Asked:
    """Whether a schedule with this I and L <= length exists, by the compact encoding."""
    begun = time.perf_counter()
    encoding = Encoding(graph, machine, Z3Session(), (ii, ii))
    lazy = LazyRules(encoding)
    assert_rules(encoding)
    encoding.add(length_at_most(encoding, length))
    granule = machine.register_file.granule
    while True:
        encoding.flush()
        answer = encoding.session.check(seconds=budget - (time.perf_counter() - begun))
        if answer.outcome == "sat":
            a = read_assignment(encoding, answer.values)
            if lazy.refine(a, {s.id: granule * answer.values.get(f"b{s.id}", 0) for s in a.used}):
                continue
        return Asked(answer.outcome, Times((time.perf_counter() - begun,)))


def decide_printed(graph: CostedGraph, machine: Machine, ii: int, length: int, budget: float) -> Asked:
    """The same question, by the paper's Boolean encoding."""
    answer = solve_boolean(graph, machine, ii, length, budget)
    return Asked(answer.outcome, Times((answer.seconds,)), answer.deciding, answer.variables, answer.clauses)


def paper_loop(graph: CostedGraph, machine: Machine, budget: float) -> Loop:
    """The paper's whole search, once."""
    begun = time.perf_counter()
    found = paper_search(graph, machine, Limits(seconds=budget)).objective
    seconds = time.perf_counter() - begun
    if found is None:
        return Loop(None, None, None, seconds)
    return Loop(found.ii, found.copies, found.length, seconds)
