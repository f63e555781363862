"""One requested solve: costs its loops, gives each a share of the budget, and starts their searches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from twill.exc import UnpricedOperation
from twill.graph.cost import cost
from twill.graph.costed import Cooperation, CostedGraph
from twill.graph.dependence import SCALED, DependenceGraph, Region
from twill.machine.description import Machine
from twill.schedule.document import Bounds
from twill.schedule.options import SolveOptions
from twill.smt.limits import Limits
from twill.smt.outcome import Progress
from twill.smt.pins import Pin, parse_pin
from twill.smt.problem import Problem
from twill.smt.search import Search
from twill.smt.solvers import opener
from twill.smt.warm import HeuristicStarts
from twill.solve.strategies import Baseline
from twill.zlp.normalize import normalize

Searching = Search | Baseline


@dataclass(frozen=True)
class Report:
    """Progress of a solve: what is being solved, and how far its bounds have closed in."""

    loop: int
    cooperation: Cooperation
    progress: Progress


@dataclass(frozen=True)
class SolveJob:
    """began: of the clock that the budget is counted from (`time.perf_counter`). starts: what the heuristic has found
    for its main loop. processes: that may work at it."""

    graph: DependenceGraph
    machine: Machine
    options: SolveOptions
    progress: Callable[[Report], None] | None = None
    began: float = field(default_factory=time.perf_counter)
    starts: HeuristicStarts = field(default_factory=HeuristicStarts)
    processes: int = 1

    @property
    def solver_processes(self) -> int:
        """Processes that may ask the solver: one where it is a program of its own, with which only one can talk."""
        return self.processes if self.options.solver == "z3" else 1

    def quiet(self) -> SolveJob:
        """The same, by one process that tells nobody how far it is."""
        return replace(self, progress=None, processes=1)

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The pins that were asked for. Raises BadPin."""
        return tuple(parse_pin(p) for p in self.options.pins)

    @property
    def budget(self) -> str:
        """The budget in words."""
        if self.options.budget is None:
            return f"the solver's limit of {self.options.resource_limit}"
        return f"the budget of {self.options.budget} s"

    def costed(self, region: Region, cooperation: Cooperation) -> CostedGraph:
        """`region` costed, normalized if that was asked for. Raises UnpricedOperation."""
        try:
            graph = cost(self.graph, region, self.machine, cooperation)
        except KeyError as missing:
            hint = f"an entry for {missing.args[0]!r} in the machine file (docs/machine-files.md)"
            if missing.args[0].removeprefix("mma.") in SCALED:
                hint = "a machine that has products with scales of blocks (`--machine b200`), or tl.dot"
            raise UnpricedOperation(
                f"machine {self.machine.name} has no price for {missing.args[0]!r}, which the loop needs",
                file=self.graph.file,
                line=region.line,
                hint=hint,
            ) from None
        return graph if self.options.units is None else normalize(graph, self.options.units)

    def problem(self, graph: CostedGraph) -> Problem:
        """The main loop with what its schedule must respect."""
        return Problem(graph, self.machine, self.pins)

    def main_search(self, graph: CostedGraph, bounds: Bounds, region: Region, at_most: int | None = None) -> Searching:
        """The search of the main loop with one cooperation. at_most: the largest I that is of use (None: any is)."""
        if self.options.strategy != "joint":
            return self._baseline(graph, bounds, region, {}, {})
        search = self._joint(graph, bounds, region)
        return search(pins=self.pins, ii=self.options.ii, at_most=at_most, starts=self.starts)

    def other_search(
        self,
        graph: CostedGraph,
        bounds: Bounds,
        region: Region,
        fixed: Mapping[int, int],
        floors: Mapping[int, int],
    ) -> Searching:
        """The search of a loop beside the main one; fixed, floors: see `twill.smt.problem`."""
        if self.options.strategy != "joint":
            return self._baseline(graph, bounds, region, fixed, floors)
        return self._joint(graph, bounds, region)(fixed=fixed, floors=floors)

    def _joint(self, graph: CostedGraph, bounds: Bounds, region: Region) -> Callable[..., Search]:
        return partial(
            Search, graph, self.machine, bounds, self.limits, progress=self._notifier(region, graph),
            open_session=opener(self.options.solver, self.options.seed), margin=self.options.margin,
        )  # fmt: skip

    def _baseline(
        self, graph: CostedGraph, bounds: Bounds, region: Region, fixed: Mapping[int, int], floors: Mapping[int, int]
    ) -> Baseline:
        return Baseline(
            self.options.strategy,
            graph,
            self.machine,
            bounds,
            self.limits,
            fixed=fixed,
            floors=floors,
            progress=self._notifier(region, graph),
        )

    @property
    def limits(self) -> Limits:
        """The budget of every search of it."""
        return Limits(self.options.budget, self.options.resource_limit, self.options.seed, self.began)

    def _notifier(self, region: Region, graph: CostedGraph) -> Callable[[Progress], None] | None:
        notify = self.progress
        return None if notify is None else lambda p: notify(Report(region.id, graph.cooperation, p))
