"""The main job, as the picture has it: cost, normalize, bound, solve, check.

`solve` takes a dependence graph and a machine and returns the checked schedule of the best
cooperation, or raises `Infeasible` or `BudgetExhausted`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from twill.assemble import Solved, assemble
from twill.check import check_or_raise
from twill.exc import (
    BadPin,
    BudgetExhausted,
    Infeasible,
    NothingToSchedule,
    StrategyGaveUp,
    StrategyOption,
    UnpricedOperation,
)
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import Cooperation, CostedGraph
from twill.graph.dependence import DependenceGraph, Region
from twill.graph.links import carried_links
from twill.key import Asked, schedule_key, units_of
from twill.machine import Machine
from twill.schedule import Bounds, Candidate, Schedule, Strategy
from twill.smt.explain import Request, explain
from twill.smt.limits import Limits
from twill.smt.outcome import Progress
from twill.smt.pins import Pin, parse_pin, select
from twill.smt.search import Search
from twill.strategies import Baseline
from twill.zlp.bounds import lower_bounds
from twill.zlp.largest import largest_ii
from twill.zlp.normalize import normalize

WHYS_TOLD = 2  # cooperations whose infeasibility is explained in an error
SECONDS_TO_EXPLAIN = 20.0

Searching = Search | Baseline


@dataclass(frozen=True)
class SolveOptions:
    """normalize: the U of `--normalize U` (None: exact cycles). budget: seconds for everything
    (None: no limit). resource_limit: z3's counter per check (0: none). blocks: only cooperations
    with this many row blocks. ii: ask about this initiation interval only. pins: see `twill.smt.pins`.
    strategy: see `twill.strategies`; any but joint follows neither pins nor ii nor resource_limit."""

    normalize: int | None = None
    budget: float | None = None
    resource_limit: int = 0
    seed: int = 0
    pins: tuple[str, ...] = ()
    blocks: int | None = None
    ii: int | None = None
    strategy: Strategy = "joint"

    @property
    def units(self) -> int | None:
        """The U that costs are normalized with; None: exact cycles."""
        return units_of(self.strategy, self.normalize)

    def asked(self) -> Asked:
        """The part that the key depends on."""
        return Asked(
            strategy=self.strategy, units=self.units, seed=self.seed, pins=self.pins, blocks=self.blocks, ii=self.ii
        )


@dataclass(frozen=True)
class Report:
    """Progress of a solve: what is being solved, and how far its bounds have closed in."""

    loop: int
    cooperation: Cooperation
    progress: Progress


def solve(
    graph: DependenceGraph,
    machine: Machine,
    options: SolveOptions | None = None,
    progress: Callable[[Report], None] | None = None,
) -> Schedule:
    """The optimal schedule of every loop of `graph`; checked by `twill.check` before it is returned."""
    return _Solve(graph, machine, options or SolveOptions(), progress).run()


def main_region(graph: DependenceGraph) -> Region:
    """The loop with the most work: one whose trip count grows with the problem beats a constant one."""
    regions = [r for r in graph.regions if r.kind == "loop" and r.nodes]
    if not regions:
        regions = [r for r in graph.regions if r.nodes]
    if not regions:
        raise NothingToSchedule(
            f"{graph.kernel} has no tile instruction to schedule",
            file=graph.file,
            hint="a kernel that loads, computes and stores tiles",
        )
    return max(regions, key=lambda r: (_trip(r), _work(r), -r.id))


def schedulable(graph: DependenceGraph) -> list[Region]:
    """The regions that get a schedule: all loops, or the straight line of a kernel without one."""
    loops = [r for r in graph.regions if r.kind == "loop" and r.nodes]
    return loops or [main_region(graph)]


@dataclass
class _Solve:
    graph: DependenceGraph
    machine: Machine
    options: SolveOptions
    progress: Callable[[Report], None] | None

    def run(self) -> Schedule:
        begun = time.perf_counter()
        self.begun = begun
        self.refuse_unfollowed()
        pins = tuple(parse_pin(p) for p in self.options.pins)
        region = main_region(self.graph)
        best, candidates = self.best_cooperation(region, pins)
        solved = [best]
        for other in schedulable(self.graph):
            if other.id != region.id:
                solved.append(self.follow(other, best))
        solved.sort(key=lambda s: s.region.id)
        schedule = assemble(
            self.graph,
            self.machine,
            best,
            solved,
            candidates,
            self.options.pins,
            self.key(),
            time.perf_counter() - begun,
        ).model_copy(update={"strategy": self.options.strategy})
        check_or_raise(schedule, self.machine)
        if (
            self.options.strategy == "joint"
            and self.options.ii is None
            and not all(s.outcome.certificate.optimal for s in solved)
        ):
            raise BudgetExhausted(
                f"{self.budget()} ended before optimality was proven; "
                f"best I = {schedule.ii}, proven lower bound {schedule.certificate.lower_bound}",
                schedule=schedule,
                lower_bound=schedule.certificate.lower_bound,
            )
        return schedule

    # -- the main loop ------------------------------------------------------------------------

    def best_cooperation(self, region: Region, pins: tuple[Pin, ...]) -> tuple[Solved, list[Candidate]]:
        """The best cooperation, best bound first: a candidate is looked at as long as it could still win.

        Every candidate's search raises its proven lower bound on I step by step; the one with the
        smallest I per program instance is next. What is left when a schedule is found is dominated.
        """
        bounded = [(g, lower_bounds(g, self.machine)) for g in self.pinnable(list(self.graphs(region)), pins)]
        tried = [(g, b) for g, b in bounded if self.could_pay(g, b, bounded)]
        searches = [self.search(g, b, region, pins) for g, b in tried]
        if not searches:
            self.give_up([])
        while True:
            contenders = self.contenders(searches)
            if not contenders or any(s.state == "out of budget" for s in searches):
                break
            search = min(contenders, key=lambda s: (s.effort, _promise(s), -s.graph.cooperation.blocks))
            search.advance(self.worth(search, searches))
        scheduled = [s for s in searches if s.best is not None]
        if not scheduled:
            self.give_up(searches)
        top = min(_reached(s) for s in scheduled)
        finished = [Solved(region, s.graph, s.finish()) for s in scheduled if _reached(s) == top]
        best = min(finished, key=Solved.rank)
        undecided = self.contenders(searches, "out of budget", "gave up")
        if undecided:
            best = best.unproven(min(s.lower / s.graph.cooperation.fuse for s in undecided))
        skipped = [_not_tried(g) for g, b in bounded if not self.could_pay(g, b, bounded)]
        return best, [_candidate(s, best) for s in searches] + skipped

    def pinnable(self, graphs: list[CostedGraph], pins: tuple[Pin, ...]) -> list[CostedGraph]:
        """Graphs in which every pin names something; raises BadPin if there is none."""
        found: list[CostedGraph] = []
        refused: BadPin | None = None
        for graph in graphs:
            try:
                for pin in pins:
                    for operand in (pin.first, pin.second):
                        if operand is not None:
                            select(graph, operand, pin.text)
                found.append(graph)
            except BadPin as error:
                refused = error
        if not found and refused is not None:
            raise refused
        return found

    def could_pay(self, graph: CostedGraph, bounds: Bounds, every: Sequence[tuple[CostedGraph, Bounds]]) -> bool:
        """Whether a cooperation is worth a search: instances are fused only where that lowers the bound on I
        for each of them (or where the number of blocks was asked for)."""
        fuse = graph.cooperation.fuse
        alone = [b.best for g, b in every if g.cooperation.fuse == 1]
        return fuse == 1 or not alone or self.options.blocks is not None or bounds.best / fuse < min(alone)

    def contenders(self, searches: Sequence[Searching], *states: str) -> list[Searching]:
        """Searches that are not settled and whose bound still allows them to be as good as the best schedule."""
        reached = [_reached(s) for s in searches if s.best is not None]
        return [s for s in searches if s.state in ("open", *states) and (not reached or _promise(s) <= min(reached))]

    def worth(self, search: Searching, searches: Sequence[Searching]) -> int | None:
        """The largest I at which a search would be as good as the best schedule of another one."""
        others = [s.best.ii / s.graph.cooperation.fuse for s in searches if s is not search and s.best is not None]
        return int(min(others) * search.graph.cooperation.fuse) if others else None

    def graphs(self, region: Region) -> Iterator[CostedGraph]:
        for cooperation in cooperations(self.graph, region, self.machine):
            if self.options.blocks is not None and cooperation.blocks != self.options.blocks:
                continue
            yield self.costed(region, cooperation)

    def costed(self, region: Region, cooperation: Cooperation) -> CostedGraph:
        """`region` costed, normalized if that was asked for."""
        try:
            graph = cost(self.graph, region, self.machine, cooperation)
        except KeyError as missing:
            raise UnpricedOperation(
                f"machine {self.machine.name} has no price for {missing.args[0]!r}, which the loop needs",
                file=self.graph.file,
                line=region.line,
                hint=f"an entry for {missing.args[0]!r} in the machine file (docs/machine-files.md)",
            ) from None
        return graph if self.options.units is None else normalize(graph, self.options.units)

    def search(self, graph: CostedGraph, bounds: Bounds, region: Region, pins: tuple[Pin, ...]) -> Searching:
        limits = Limits(self.options.budget, self.options.resource_limit, self.options.seed, self.begun)
        tell = self.teller(region, graph)
        if self.options.strategy != "joint":
            return Baseline(self.options.strategy, graph, self.machine, bounds, limits, progress=tell)
        return Search(graph, self.machine, bounds, limits, pins=pins, ii=self.options.ii, progress=tell)

    def teller(self, region: Region, graph: CostedGraph) -> Callable[[Progress], None] | None:
        tell = self.progress
        return None if tell is None else lambda p: tell(Report(region.id, graph.cooperation, p))

    def refuse_unfollowed(self) -> None:
        """A baseline goes its own way: raise if it was asked for what it does not follow."""
        o = self.options
        asked = {"--pin": o.pins, "--ii": o.ii, "--resource-limit": o.resource_limit}
        for option, value in asked.items():
            if value and o.strategy != "joint":
                raise StrategyOption(option, o.strategy)

    def give_up(self, searches: list[Searching]) -> NoReturn:
        """Raise what is known when no search found a schedule."""
        if not searches:
            raise Infeasible(
                f"no cooperation of {self.graph.kernel} has {self.options.blocks} row blocks", file=self.graph.file
            )
        if self.options.strategy != "joint" and not any(isinstance(s, Baseline) and s.timed_out for s in searches):
            raise StrategyGaveUp(self.options.strategy, self.graph.kernel, file=self.graph.file)
        if self.options.strategy != "joint" or any(s.state == "out of budget" for s in searches):
            bound = min(-(-s.lower // s.graph.cooperation.fuse) for s in searches if s.state != "infeasible")
            raise BudgetExhausted(
                f"{self.budget()} ended with no schedule; proven lower bound on I: {bound}",
                lower_bound=bound,
            )
        asked = f" with I = {self.options.ii}" if self.options.ii is not None else ""
        raise Infeasible(
            f"{self.graph.kernel} has no schedule on {self.machine.name}{asked}: "
            + "; ".join(f"{_spelled(s.graph.cooperation)}: {self.why(s)}" for s in searches[:WHYS_TOLD]),
            file=self.graph.file,
            line=searches[0].graph.line,
            hint="smaller tiles, another machine, or fewer pins, as the rules named above ask for",
        )

    def budget(self) -> str:
        """The budget in words."""
        if self.options.budget is None:
            return f"the solver's limit of {self.options.resource_limit}"
        return f"the budget of {self.options.budget} s"

    def why(self, search: Searching) -> str:
        """The rules that exclude every schedule of a cooperation (at the I asked for, else at any I)."""
        pins = tuple(parse_pin(p) for p in self.options.pins)
        request = Request(self.options.ii or largest_ii(search.graph), pins=pins)
        try:
            found = explain(search.graph, self.machine, request, SECONDS_TO_EXPLAIN)
        except TimeoutError:
            found = None
        return ", and ".join(found.sentences) if found is not None else "no reason found in time"

    # -- the other loops ----------------------------------------------------------------------

    def follow(self, region: Region, main: Solved) -> Solved:
        """Schedule another loop with the main loop's cooperation, and its warp groups where values pass."""
        graph = self.costed(region, main.graph.cooperation)
        bounds = lower_bounds(graph, self.machine)
        assert main.outcome.assignment is not None
        fixed = carried_links(self.graph, main.graph, graph, main.outcome.assignment.slot)
        limits = Limits(self.options.budget, self.options.resource_limit, self.options.seed, self.begun)
        if self.options.strategy != "joint":
            return self.follow_baseline(region, graph, bounds, limits, fixed, main)
        outcome = Search(
            graph,
            self.machine,
            bounds,
            limits,
            fixed=fixed,
            floors=main.budgets(),
            progress=self.teller(region, graph),
        ).run()
        if outcome.assignment is None and outcome.infeasible:
            raise Infeasible(
                f"the loop at line {region.line} has no schedule with the warp groups of the main loop "
                f"at line {main.region.line}",
                file=self.graph.file,
                line=region.line,
                hint="twill explain names the rules that exclude each other",
            )
        if outcome.assignment is None:
            raise BudgetExhausted(
                f"{self.budget()} ended before the loop at line {region.line} had a schedule",
                lower_bound=bounds.best,
            )
        return Solved(region, graph, outcome)

    def follow_baseline(
        self, region: Region, graph: CostedGraph, bounds: Bounds, limits: Limits, fixed: dict[int, int], main: Solved
    ) -> Solved:
        """As `follow`, with the strategy that was asked for."""
        baseline = Baseline(
            self.options.strategy,
            graph,
            self.machine,
            bounds,
            limits,
            fixed=fixed,
            floors=main.budgets(),
            progress=self.teller(region, graph),
        )
        outcome = baseline.run()
        if outcome.assignment is not None:
            return Solved(region, graph, outcome)
        what = f"the loop at line {region.line} in the warp groups of the main loop at line {main.region.line}"
        if baseline.timed_out:
            raise BudgetExhausted(f"{self.budget()} ended with no schedule for {what}", lower_bound=bounds.best)
        raise StrategyGaveUp(self.options.strategy, what, file=self.graph.file, line=region.line)

    def key(self) -> str:
        """SHA-256 over the canonical graph, the machine and every option that can change the answer."""
        return schedule_key(self.graph, self.machine.digest(), self.options.asked())


def _trip(region: Region) -> float:
    if region.trip is None:
        return 0
    return float("inf") if region.trip.constant is None else region.trip.constant


def _work(region: Region) -> int:
    return sum(sum(c.elements for c in n.counts) + (n.mma.m * n.mma.n * n.mma.k if n.mma else 0) for n in region.nodes)


def _spelled(c: Cooperation) -> str:
    if not c.dim:
        return "one row block"
    return f"{c.blocks} row blocks along {c.dim}" + (f" ({c.fuse} instances fused)" if c.fuse > 1 else "")


def _promise(search: Searching) -> tuple[float, int]:
    """What decides between cooperations before anything else: cycles per instance, instances fused."""
    fuse = search.graph.cooperation.fuse
    return search.lower / fuse, fuse


def _reached(search: Searching) -> tuple[float, int]:
    """The same for the best schedule that a search has."""
    assert search.best is not None
    fuse = search.graph.cooperation.fuse
    return search.best.ii / fuse, fuse


def _not_tried(graph: CostedGraph) -> Candidate:
    verdict = "not tried: fusing does not lower the bound on I for each instance"
    return Candidate(cooperation=graph.cooperation, verdict=verdict, ii=None)


def _candidate(search: Searching, best: Solved) -> Candidate:
    """What became of a cooperation."""
    cooperation = search.graph.cooperation
    if cooperation == best.graph.cooperation:
        return Candidate(cooperation=cooperation, verdict="chosen", ii=best.outcome_ii)
    if search.state == "gave up":
        return Candidate(cooperation=cooperation, verdict="no schedule found", ii=None)
    if search.state == "found" and search.lower / cooperation.fuse > best.outcome_ii / best.graph.cooperation.fuse:
        return Candidate(cooperation=cooperation, verdict="a larger I for each instance", ii=search.lower)
    if search.state == "found":
        return Candidate(cooperation=cooperation, verdict="worse in a later objective", ii=search.lower)
    if search.state == "infeasible":
        return Candidate(cooperation=cooperation, verdict="infeasible", ii=None)
    verdict = f"dominated: I >= {search.lower}" + (f" for {cooperation.fuse} instances" if cooperation.fuse > 1 else "")
    return Candidate(cooperation=cooperation, verdict=verdict, ii=None)
