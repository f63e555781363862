"""The search for the best cooperation of the main loop: one solve each, the smallest lower bound first.

A candidate is looked at as long as it could still win. Every candidate's search raises its proven lower
bound on I step by step; the one with the smallest I per program instance is next. What is left when
a schedule is found is dominated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import NoReturn

from twill.exc import BadPin, BudgetExhausted, Infeasible, StrategyGaveUp
from twill.forked import ForkedAnswer
from twill.graph.cooperation import cooperations, in_columns, row_dims
from twill.graph.costed import Cooperation, CostedGraph
from twill.graph.dependence import Region
from twill.graph.pairs import may_pair
from twill.schedule.document import Bounds, CooperationCandidate
from twill.smt.explain import ExplainRequest, explain
from twill.smt.outcome import Outcome
from twill.smt.pins import select
from twill.smt.search import Search
from twill.smt.spending import FIRST_EFFORT
from twill.solve.assemble import Solved
from twill.solve.job import Searching, SolveJob
from twill.solve.strategies import Baseline
from twill.zlp.bounds import lower_bounds
from twill.zlp.largest import largest_ii

PAIR = 2  # row blocks: with fewer, warp groups have nothing to overlap with one another
EXPLAINED = 2  # cooperations whose infeasibility is explained in an error
SECONDS_TO_EXPLAIN = 20.0
THREADS, MOST_WIDTH = 128, 8  # of a warp group; warp groups' worth of threads in a CTA


Known = Callable[[float], None]


class TooNarrow(Exception):
    """There is no schedule, and there may be one with more threads to a row block."""


def most_width(region: Region) -> int:
    """Warp groups' worth of threads that may have one row block between them: those of products are of one."""
    return 1 if any(node.mma for node in region.nodes) else MOST_WIDTH


@dataclass
class CandidateSearch:
    """The cooperations of one region, each with its search. width: of each, where the threads of one warp
    group have no room for a row block. polynomial: of 16 exponentials of each (`twill.graph.exponentials`); at_most:
    cycles for each instance of a schedule that is worth looking for (None: any). briefly: whether all is given up where
    the first questions of a search are too hard."""

    job: SolveJob
    region: Region
    width: int = 1
    polynomial: int = 0
    at_most: float | None = None
    briefly: bool = False
    searches: list[Searching] = field(default_factory=list)

    def winner(self, known: Known = lambda cycles: None) -> tuple[Solved, list[CooperationCandidate]]:
        """The best cooperation's schedule, and what became of every cooperation. known: is told the cycles for each
        instance when no schedule can have less, before the objectives behind them are minimized.

        Raises BadPin, Infeasible, BudgetExhausted, StrategyGaveUp.
        """
        found = self.better(known)
        assert found is not None
        return found

    def better(self, known: Known = lambda cycles: None) -> tuple[Solved, list[CooperationCandidate]] | None:
        """The same; None if there is a limit on I, and no schedule within it, or none that is found as briefly."""
        bounded = [(g, lower_bounds(g, self.job.machine)) for g in self._pinnable(self.graphs())]
        whys = [self._why_not(g, b, bounded) for g, b in bounded]
        self.searches = [
            self.job.main_search(g, b, self.region, self._limit(g))
            for (g, b), why in zip(bounded, whys, strict=True)
            if not why
        ]
        if not self.searches:
            asked = self.job.options
            raise Infeasible(
                f"no cooperation of {self.job.graph.kernel} has {asked.blocks or 'several'} row blocks",
                file=self.job.graph.file,
                hint=self._possible(),
            )
        self._search_all()
        if self.briefly and self._contenders():
            return None
        if self.at_most is None and all(s.best is None for s in self.searches):
            self._fall_back()
        scheduled = [s for s in self.searches if s.best is not None]
        if self.at_most is not None:
            scheduled = [s for s in scheduled if _reached(s)[0] <= self.at_most]
            if not scheduled:
                return None
        if not scheduled:
            self._give_up()
        top = min(_reached(s) for s in scheduled)
        known(top[0])
        best = min(self._finished([s for s in scheduled if _reached(s) == top]), key=Solved.rank)
        undecided = [s for s in self._contenders("out of budget", "gave up") if s.graph != best.graph]
        if undecided:
            best = best.unproven(min(s.lower / s.graph.cooperation.fuse for s in undecided))
        skipped = [_not_tried(g, why) for (g, _), why in zip(bounded, whys, strict=True) if why]
        told = [s for s in self.searches if not self._stands_back(s)]
        return best, [_candidate(s, best) for s in told] + skipped

    @property
    def open_below(self) -> float | None:
        """The least cycles for each instance that are still possible where the budget ended; None if it did not."""
        left = [s.lower / s.graph.cooperation.fuse for s in self._contenders("out of budget", "gave up")]
        return min(left, default=None)

    def _finished(self, searches: Sequence[Searching]) -> list[Solved]:
        """The schedules of searches that have found I: of the first here, of each other by a copy of this process."""
        with ExitStack() as stack:
            ends = [partial(_end, search, quiet=True) for search in searches[1:]]
            others = [stack.enter_context(ForkedAnswer(end, self.job.solver_processes)) for end in ends]
            ended = [_end(searches[0]), *(one.answer() for one in others)]
        for search, (_, over) in zip(searches, ended, strict=True):
            if over and isinstance(search, Search):
                search.state = "out of budget"
        return [Solved(self.region, s.graph, outcome) for s, (outcome, _) in zip(searches, ended, strict=True)]

    def _search_all(self) -> None:
        while True:
            contenders = [s for s in self._contenders() if not self.briefly or s.effort <= FIRST_EFFORT]
            if not contenders or any(s.state == "out of budget" for s in self.searches):
                return
            search = min(contenders, key=lambda s: (s.effort, _promise(s), -s.graph.cooperation.blocks))
            search.advance(self._worth(search))

    def _fall_back(self) -> None:
        """The budget ended without a schedule: take what can be had without a question."""
        for search in self._contenders("out of budget"):
            if isinstance(search, Search):
                search.fall_back()

    def graphs(self) -> list[CostedGraph]:
        """Of every cooperation that was asked for."""
        asked = self.job.options.blocks
        every = cooperations(self.job.graph, self.region, self.job.machine)
        wanted = [c for c in every if asked in (None, c.blocks) and (self.job.options.fuse or c.fuse == 1)]
        pair = self.job.options.cluster > 1 and may_pair(self.region, self.job.machine)
        if self.width > 1 or self.polynomial or pair:
            more = {"width": self.width, "polynomial": self.polynomial, "pair": pair}
            wanted = [c.model_copy(update=more) for c in wanted]
        return [self.job.costed(self.region, c) for c in wanted]

    def _possible(self) -> str:
        """Which numbers of row blocks there are, and why not more."""
        every = cooperations(self.job.graph, self.region, self.job.machine)
        alone, fused = (sorted({c.blocks for c in every if (c.fuse > 1) == more}) for more in (False, True))
        said = f"--blocks {', '.join(map(str, alone))}"
        if fused:
            return f"{said}, or with fused program instances {', '.join(map(str, fused))}"
        return (
            f"{said}; program instances are not fused here: more tells them apart than which tiles they have, as the "
            "bounds of their loops, or their order is computed (docs/model.md, Cooperation)"
        )

    def _pinnable(self, graphs: list[CostedGraph]) -> list[CostedGraph]:
        """Graphs in which every pin names something; raises BadPin if there is none."""
        found: list[CostedGraph] = []
        refused: BadPin | None = None
        pins = self.job.pins
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

    def _why_not(self, graph: CostedGraph, bounds: Bounds, every: Sequence[tuple[CostedGraph, Bounds]]) -> str:
        """Why a cooperation is not worth a search; "" if it is. Instances are fused only where that lowers the bound on
        I for each of them, in pairs where a tile alone is one row block, or where the number of blocks was asked for.
        Along columns only the latter: that takes long to prove, and was measured slower (docs/emitted-kernels.md)."""
        fuse = graph.cooperation.fuse
        alone = [(g.cooperation.blocks, b.best) for g, b in every if g.cooperation.fuse == 1]
        if fuse == 1 or not alone or self.job.options.blocks is not None:
            return ""
        if graph.cooperation.dim not in {dim.name for dim in row_dims(self.job.graph, self.region)}:
            return "not tried: fused along columns only where the number of row blocks is asked for"
        pair = graph.cooperation.blocks == PAIR and max(blocks for blocks, _ in alone) == 1
        if pair or bounds.best / fuse < min(best for _, best in alone):
            return ""
        return "not tried: fusing does not lower the bound on I for each instance"

    def _contenders(self, *states: str) -> list[Searching]:
        """Searches that are not settled and whose bound still allows them to be as good as the best schedule."""
        reached = [_reached(s) for s in self.searches if s.best is not None]
        return [
            s
            for s in self.searches
            if s.state in ("open", *states)
            and (not reached or _promise(s) <= min(reached))
            and (self.at_most is None or _promise(s)[0] <= self.at_most)
            and not self._stands_back(s)
        ]

    def _stands_back(self, search: Searching) -> bool:
        """Whether the row blocks can have shares of what joins them, and a schedule with those is not ruled out."""
        alike = in_columns(search.graph.cooperation)
        others = (s for s in self.searches if s is not search and s.graph.cooperation == alike)
        return any(s.state not in ("infeasible", "gave up") for s in others)

    def _worth(self, search: Searching) -> int | None:
        """The largest I at which a search would be as good as the best schedule of another one."""
        fuse = search.graph.cooperation.fuse
        others = [s.best.ii / s.graph.cooperation.fuse for s in self.searches if s is not search and s.best is not None]
        worth = [int(min(others) * fuse)] if others else []
        limit = self._limit(search.graph)
        return min([*worth, *([] if limit is None else [limit])], default=None)

    def _limit(self, graph: CostedGraph) -> int | None:
        """The largest I of a cooperation that is worth looking for; None: any."""
        return None if self.at_most is None else int(self.at_most * graph.cooperation.fuse)

    # -- no schedule ----------------------------------------------------------------------------

    def _give_up(self) -> NoReturn:
        """Raise what is known when no search found a schedule."""
        job, searches = self.job, self.searches
        late = any(s.timed_out if isinstance(s, Baseline) else s.state == "out of budget" for s in searches)
        if self.width < most_width(self.region) and not job.pins and not late:
            raise TooNarrow
        if job.options.strategy != "joint" and not any(isinstance(s, Baseline) and s.timed_out for s in searches):
            raise StrategyGaveUp(job.options.strategy, job.graph.kernel, file=job.graph.file)
        if job.options.strategy != "joint" or any(s.state == "out of budget" for s in searches):
            bound = min(-(-s.lower // s.graph.cooperation.fuse) for s in searches if s.state != "infeasible")
            raise BudgetExhausted(
                f"{job.budget} ended with no schedule; proven lower bound on I: {bound}",
                lower_bound=bound,
            )
        asked = f" with I = {job.options.ii}" if job.options.ii is not None else ""
        raise Infeasible(
            f"{job.graph.kernel} has no schedule on {job.machine.name}{asked}: "
            + "; ".join(f"{_spelled(s.graph.cooperation)}: {self._why(s)}" for s in searches[:EXPLAINED]),
            file=job.graph.file,
            line=searches[0].graph.line,
            hint=(
                "no --ii, which finds the smallest I that there is"
                if job.options.ii is not None
                else "smaller tiles, another machine, or fewer pins, as the rules named above ask for"
            ),
        )

    def _why(self, search: Searching) -> str:
        """The rules that exclude every schedule of a cooperation (at the I asked for, else at any I)."""
        request = ExplainRequest(self.job.options.ii or largest_ii(search.graph), pins=self.job.pins)
        try:
            found = explain(search.graph, self.job.machine, request, SECONDS_TO_EXPLAIN)
        except TimeoutError:
            found = None
        return ", and ".join(found.sentences) if found is not None else "no reason found in time"


def _end(search: Searching, quiet: bool = False) -> tuple[Outcome, bool]:
    """The outcome of a search that has found I, and whether its budget ended. quiet: nobody is told how far it is."""
    if quiet:
        search.progress = None
    return search.finish(), search.state == "out of budget"


def _spelled(c: Cooperation) -> str:
    if not c.dim:
        return "one row block" + (f" of {c.width * THREADS} threads" if c.width > 1 else "")
    how = f" ({c.fuse} instances fused)" if c.fuse > 1 else " with shares of what joins them" if c.columns else ""
    return f"{c.blocks} row blocks along {c.dim}{how}"


def _promise(search: Searching) -> tuple[float, int]:
    """What decides between cooperations before anything else: cycles per instance, instances fused."""
    fuse = search.graph.cooperation.fuse
    return search.lower / fuse, fuse


def _reached(search: Searching) -> tuple[float, int]:
    """The same for the best schedule that a search has."""
    assert search.best is not None
    fuse = search.graph.cooperation.fuse
    return search.best.ii / fuse, fuse


def _not_tried(graph: CostedGraph, why: str) -> CooperationCandidate:
    return CooperationCandidate(cooperation=graph.cooperation, verdict=why, ii=None)


def _candidate(search: Searching, best: Solved) -> CooperationCandidate:
    """What became of a cooperation."""
    cooperation = search.graph.cooperation
    if cooperation == best.graph.cooperation:
        return CooperationCandidate(cooperation=cooperation, verdict="chosen", ii=best.outcome_ii)
    if search.state == "gave up":
        return CooperationCandidate(cooperation=cooperation, verdict="no schedule found", ii=None)
    if search.state == "found" and search.lower / cooperation.fuse > best.outcome_ii / best.graph.cooperation.fuse:
        return CooperationCandidate(cooperation=cooperation, verdict="a larger I for each instance", ii=search.lower)
    if search.state == "found":
        return CooperationCandidate(cooperation=cooperation, verdict="worse in a later objective", ii=search.lower)
    if search.state == "infeasible":
        return CooperationCandidate(cooperation=cooperation, verdict="infeasible", ii=None)
    verdict = f"dominated: I >= {search.lower}" + (f" for {cooperation.fuse} instances" if cooperation.fuse > 1 else "")
    return CooperationCandidate(cooperation=cooperation, verdict=verdict, ii=None)
