"""The whole solve of a kernel: cost, normalize, bound, solve, assemble, check.

`solve` takes a dependence graph and a machine and returns the checked schedule of the best
cooperation, or raises `Infeasible` or `BudgetExhausted`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.exc import BudgetExhausted, Infeasible, StrategyGaveUp, StrategyOption, TwillError
from twill.graph.dependence import DependenceGraph, Region
from twill.graph.links import carried_links
from twill.machine.description import Machine
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import CooperationCandidate, Objective, Schedule
from twill.schedule.key import schedule_key
from twill.schedule.options import SolveOptions as SolveOptions
from twill.smt.alternatives import alternatives
from twill.smt.limits import OutOfBudget
from twill.smt.search import Search
from twill.solve.assemble import Solved, assemble, budgets_of
from twill.solve.candidates import TooNarrow
from twill.solve.job import Report as Report
from twill.solve.job import SolveJob
from twill.solve.regions import main_region as main_region
from twill.solve.regions import schedulable as schedulable
from twill.solve.split import winner
from twill.solve.strategies import Baseline
from twill.zlp.bounds import lower_bounds


def solve(
    graph: DependenceGraph,
    machine: Machine,
    options: SolveOptions | None = None,
    progress: Callable[[Report], None] | None = None,
    processes: int = 1,
) -> Schedule:
    """The optimal schedule of every loop of `graph`; checked by `twill.schedule.checker.check` before it is returned.

    The main loop comes first; the others follow its cooperation and its warp groups. processes: more than one may work
    at it; the schedule is that of one.
    """
    job = SolveJob(graph, machine, options or SolveOptions(), progress, processes=processes)
    _refuse_unfollowed(job.options)
    try:
        best, candidates = _winner(job)
        return _schedule(job, best, candidates)
    except BudgetExhausted as ended:
        if ended.schedule is not None or not _may_be_any(job.options):
            raise
        raise _with_schedule(ended, in_program_order(graph, machine, job.options)) from ended


def best_known(ended: BudgetExhausted) -> Schedule:
    """The best schedule when the budget ended; raises what ended if there was none."""
    if not isinstance(ended.schedule, Schedule):
        raise ended
    return ended.schedule


def _may_be_any(o: SolveOptions) -> bool:
    """Whether a schedule in the order of the program is one that was asked for."""
    return o.strategy == "joint" and o.ii is None and not o.pins


def in_program_order(graph: DependenceGraph, machine: Machine, o: SolveOptions) -> Schedule | None:
    """One iteration at a time, which takes no solver; None if memories or registers are too small for that. o: of which
    row blocks, fused instances, clusters and exponentials are kept."""
    asked = SolveOptions(
        strategy="none", blocks=o.blocks, fuse=o.fuse, cluster=o.cluster, whole_exponentials=o.whole_exponentials
    )
    try:
        job = SolveJob(graph, machine, asked, None)
        best, candidates = _winner(job)
        return _schedule(job, best, candidates)
    except TwillError:
        return None


def _with_schedule(ended: BudgetExhausted, schedule: Schedule | None) -> BudgetExhausted:
    """The same with a schedule to take."""
    if schedule is None:
        return ended
    message = f"{ended.message}; one in the order of the program has I = {schedule.ii}"
    return BudgetExhausted(message, schedule=schedule, lower_bound=ended.lower_bound)


def _winner(job: SolveJob) -> tuple[Solved, list[CooperationCandidate]]:
    """The best cooperation of the main loop: of the least width that has one."""
    region, width = main_region(job.graph), 1
    while True:
        try:
            return winner(job, region, width)
        except TooNarrow:
            width *= 2


@dataclass(frozen=True)
class Top:
    """Schedules that are as good as each other; all: whether there are no others (none was looked for: False)."""

    schedules: tuple[Schedule, ...]
    all: bool


def solve_top(
    graph: DependenceGraph,
    machine: Machine,
    count: int,
    options: SolveOptions | None = None,
    progress: Callable[[Report], None] | None = None,
) -> Top:
    """At most `count` optimal schedules that differ in the main loop (`twill.smt.alternatives` says in what).

    The first is what `solve` returns; each is checked. Raises what `solve` raises, and StrategyOption for a
    strategy other than joint, which proves nothing optimal.
    """
    job = SolveJob(graph, machine, options or SolveOptions(), progress)
    if job.options.strategy != "joint":
        raise StrategyOption("--top", job.options.strategy)
    best, candidates = _winner(job)
    schedules = [_schedule(job, best, candidates)]
    others = alternatives(job.problem(best.graph), best.assignment, job.limits)
    try:
        while len(schedules) < count:
            found = next(others, None)
            if found is None:
                return Top(tuple(schedules), True)
            other = replace(best, outcome=replace(best.outcome, assignment=found))
            schedules.append(_schedule(job, other, candidates))
    except OutOfBudget:
        pass
    return Top(tuple(schedules), False)


def _schedule(job: SolveJob, best: Solved, candidates: Sequence[CooperationCandidate]) -> Schedule:
    """The checked document of a main loop's schedule and of the loops that follow it. Raises BudgetExhausted."""
    graph, machine = job.graph, job.machine
    solved = [best]
    for other in schedulable(graph):
        if other.id != best.region.id:
            solved.append(_follow(job, other, solved))
    solved.sort(key=lambda s: s.region.id)
    schedule = assemble(
        graph,
        machine,
        best,
        solved,
        candidates,
        job.options.pins,
        schedule_key(graph, machine.digest(), job.options.asked),
        time.perf_counter() - job.began,
    ).model_copy(update={"strategy": job.options.strategy})
    check_or_raise(schedule, machine)
    everything_asked = job.options.strategy == "joint" and job.options.ii is None
    if everything_asked and not all(s.outcome.certificate.optimal for s in solved):
        raise BudgetExhausted(
            f"{job.budget} ended before optimality was proven; "
            f"best I = {schedule.ii}, proven lower bound {schedule.certificate.lower_bound}; "
            f"{_proven(schedule, best.region.id)}",
            schedule=schedule,
            lower_bound=schedule.certificate.lower_bound,
        )
    return schedule


def _proven(schedule: Schedule, main: int) -> str:
    """Which objectives are proven minimal, in words: of the loop `main`, and of others not proven optimal."""
    proofs = [_minimal(schedule.objective)]
    for loop in schedule.loops:
        if loop.loop != main and not loop.certificate.optimal:
            bound = f"I = {loop.ii}, proven lower bound {loop.certificate.lower_bound}"
            proofs.append(f"of the loop at line {loop.line}: {bound}; {_minimal(loop.objective)}")
    return "; ".join(proofs)


def _minimal(o: Objective) -> str:
    words = {"ii": "I", "length": "L"}
    proven = [words.get(name, name) for name in o.proven]
    return f"proven minimal: {', '.join(proven)}" if proven else "nothing is proven minimal"


def _refuse_unfollowed(o: SolveOptions) -> None:
    """A baseline goes its own way: raise if it was asked for what it does not follow."""
    other = o.solver if o.solver != "z3" else None
    asked = {"--pin": o.pins, "--ii": o.ii, "--resource-limit": o.resource_limit, "--solver": other}
    for option, value in asked.items():
        if value and o.strategy != "joint":
            raise StrategyOption(option, o.strategy)


def _follow(job: SolveJob, region: Region, before: Sequence[Solved]) -> Solved:
    """Schedule another loop with the main loop's cooperation, and where values pass the warp groups of the loops that
    are scheduled already, of which the main one is the first. Warp groups have the main loop's budgets to begin with;
    if the register file has no room for the most that all loops need, those of every loop before it."""
    found = _follow_with(job, region, before, before[0].budgets())
    if _registers([*before, found]) > job.machine.register_file.registers.value:
        return _follow_with(job, region, before, budgets_of(before))
    return found


def _registers(solved: Sequence[Solved]) -> int:
    """Of all threads of the warp groups of some loops."""
    slots = solved[0].assignment.slots
    return sum(slots[slot].context.threads * budget for slot, budget in budgets_of(solved).items())


def _follow_with(job: SolveJob, region: Region, before: Sequence[Solved], floors: Mapping[int, int]) -> Solved:
    """The same. floors: registers per thread by slot that are taken anyway."""
    main = before[0]
    graph = job.costed(region, main.graph.cooperation)
    bounds = lower_bounds(graph, job.machine)
    fixed: dict[int, int] = {}
    for one in before[::-1]:  # the main loop has the last word
        fixed |= carried_links(job.graph, one.graph, graph, one.assignment.slot)
    search = job.other_search(graph, bounds, region, fixed, floors)
    outcome = search.run()
    if isinstance(search, Search) and search.state == "out of budget":
        search.fall_back()
        outcome = search.finish()
    if outcome.assignment is not None:
        return Solved(region, graph, outcome)
    if outcome.infeasible:
        raise Infeasible(
            f"the loop at line {region.line} has no schedule with the warp groups of the main loop "
            f"at line {main.region.line}",
            file=job.graph.file,
            line=region.line,
            hint="twill explain names the rules that exclude each other",
        )
    what = f"the loop at line {region.line} in the warp groups of the main loop at line {main.region.line}"
    if isinstance(search, Baseline) and not search.timed_out:
        raise StrategyGaveUp(job.options.strategy, what, file=job.graph.file, line=region.line)
    raise BudgetExhausted(f"{job.budget} ended with no schedule for {what}", lower_bound=bounds.best)
