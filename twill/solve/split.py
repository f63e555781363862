"""How many of 16 exponentials are made by a polynomial (`twill.graph.exponentials`): as few as the least I takes.

The share is a variable of the solve with the values 0, 2, ... 14. Cooperations compete without one, and with the one at
which the unit of special functions and the pipes of the polynomial hold a warp group for the shortest time; what a
heuristic finds says which of the two comes first. Where both have one bound of I, schedules without a share that reach
it come before both. Smaller shares that do not take more I are looked for: the next one, then none, then by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial

from twill.exc import BadPin, Infeasible
from twill.forked import ForkedAnswer
from twill.graph.cooperation import MAX_FUSE
from twill.graph.dependence import Region
from twill.graph.exponentials import GROUP, has_polynomial, splittable
from twill.graph.price import price_node
from twill.schedule.document import CooperationCandidate
from twill.solve.assemble import Solved
from twill.solve.candidates import CandidateSearch
from twill.solve.job import SolveJob
from twill.zlp.bounds import lower_bounds

STEP = 2  # a packed instruction makes two
LESS = 1 / MAX_FUSE  # no two schedules are nearer in cycles for each instance
Winner = tuple[Solved, list[CooperationCandidate]]
Within = tuple[Winner | None, float | None]


def winner(job: SolveJob, region: Region, width: int = 1) -> Winner:
    """The best schedule of the main loop, and what became of every cooperation, without and with shares. Errors: those
    of `CandidateSearch.winner`."""
    share = balanced(job, region)
    if share and job.options.ii is None and _heuristic_prefers(job, region, width, share):
        with suppress(Infeasible, BadPin):
            whole = bounded_alike(job, region, width, share)
            if whole is not None:
                return whole
            with ExitStack() as stack:
                asked: list[ForkedAnswer[Within]] = []

                def ask(cycles: float) -> None:
                    """Whether fewer will do, as soon as I is known."""
                    first = partial(_within, job.quiet(), region, width, _next(job, region, width, share, cycles))
                    asked.append(stack.enter_context(ForkedAnswer(partial(first, cycles), job.solver_processes)))

                found = CandidateSearch(job, region, width, share).winner(ask)
                return fewer(job, region, width, found, share, first=asked.pop() if asked else None)
    try:
        found = CandidateSearch(job, region, width).winner()
    except Infeasible:
        if job.options.ii is None or not share:
            raise
        return CandidateSearch(job, region, width, share).winner()  # the I that is asked for may take a share
    return less(job, region, width, found, share) if share and job.options.ii is None else found


def bounded_alike(job: SolveJob, region: Region, width: int, share: int) -> Winner | None:
    """The best schedule without shares, where it has the bound of I that `share` has, too: a chain of dependences or
    another unit, not the exponentials. None where it has a larger bound, or no such schedule is found at once."""
    bound = _bound(job, region, width, share)
    if _bound(job, region, width, 0) != bound:
        return None
    return CandidateSearch(job, region, width, 0, bound, briefly=True).better()


def less(job: SolveJob, region: Region, width: int, found: Winner, share: int) -> Winner:
    """The same with `share`, or the least smaller one that does it, where that has less I. found: without."""
    search = CandidateSearch(job, region, width, share, _each(found[0]) - LESS)
    better = search.better()
    if better is None:
        return _known(found, search.open_below)
    return fewer(job, region, width, (better[0], [*_beaten(found[1]), *better[1]]), share, 0)


def fewer(
    job: SolveJob,
    region: Region,
    width: int,
    found: Winner,
    share: int,
    few: int = -STEP,
    first: ForkedAnswer[Within] | None = None,
) -> Winner:
    """The same with the least share that takes no more I than `share`, with which it was found. few: a smaller one that
    takes more (-2: none is known). The next smaller one comes first: where that takes more, so do the others, of which
    the warp group waits longer for the unit of special functions, and mostly there is no other question. Where I is a
    bound of the loop without any share, none comes first: what I waits for is not the exponentials. first: what the
    first question finds, if it was asked before."""
    middle = _next(job, region, width, share, _each(found[0]), few)
    while few + STEP < share:
        asked, first = first, None
        better, unknown = asked.answer() if asked else _within(job, region, width, middle, _each(found[0]))
        if better is None:
            few, found = middle, _known(found, unknown)
        else:
            found, share = (better[0], [*_beaten(found[1]), *better[1]]), middle
        middle = max(0, (few + share) // 2 // STEP * STEP) if few >= 0 else 0
    return found


def _next(job: SolveJob, region: Region, width: int, share: int, cycles: float, few: int = -STEP) -> int:
    """The share that comes first of those smaller than `share`, which takes so many cycles for each instance."""
    return share - STEP if few >= 0 or _bound(job, region, width, 0) < cycles else 0


def _within(job: SolveJob, region: Region, width: int, share: int, cycles: float) -> Within:
    """The best schedule with a share, of at most so many cycles for each instance; and what is open if there is none
    (`CandidateSearch.open_below`)."""
    search = CandidateSearch(job, region, width, share, cycles)
    return search.better(), search.open_below


def _known(found: Winner, unknown: float | None) -> Winner:
    """With no more proven than what the search behind it left open."""
    return found if unknown is None or unknown >= _each(found[0]) else (found[0].unproven(unknown), found[1])


def _heuristic_prefers(job: SolveJob, region: Region, width: int, share: int) -> bool:
    """Whether what a heuristic finds with a share has less I than what it finds without."""
    found = _heuristic(job, region, width, share)
    return found < _heuristic(job, region, width, 0, found)


def _heuristic(job: SolveJob, region: Region, width: int, share: int, at_most: float = math.inf) -> float:
    """Cycles for each instance of the best schedule that a heuristic finds with a share; infinite if it finds none
    within `at_most`."""
    found = []
    for graph in CandidateSearch(job, region, width, share).graphs():
        limit = None if math.isinf(at_most) else int(at_most * graph.cooperation.fuse)
        start = job.starts.find(job.problem(graph), lower_bounds(graph, job.machine).best, job.limits.over, limit)
        if start is not None:
            found.append(start.ii / graph.cooperation.fuse)
    return min(found, default=math.inf)


def _bound(job: SolveJob, region: Region, width: int, share: int) -> float:
    """A lower bound on the cycles for each instance with a share."""
    graphs = CandidateSearch(job, region, width, share).graphs()
    return min(lower_bounds(graph, job.machine).best / graph.cooperation.fuse for graph in graphs)


def balanced(job: SolveJob, region: Region) -> int:
    """The least share that holds the warp groups of a region's exponentials for the shortest time; 0 where none is to
    be split."""
    if job.options.whole_exponentials or not has_polynomial(job.machine):
        return 0
    nodes = [node for node in region.nodes if splittable(node)]

    def held(share: int) -> int:
        return sum(price_node(node, job.machine, 1, polynomial=share).hold for node in nodes)

    return min(range(0, GROUP, STEP), key=lambda share: (held(share), share))


def _each(solved: Solved) -> float:
    """Cycles for each program instance."""
    return solved.outcome_ii / solved.graph.cooperation.fuse


def _beaten(candidates: Iterable[CooperationCandidate]) -> Iterable[CooperationCandidate]:
    """Those of a share that was chosen before."""
    for candidate in candidates:
        chosen = candidate.verdict == "chosen"
        yield candidate.model_copy(update={"verdict": BEATEN}) if chosen else candidate


BEATEN = "another share of exponentials by a polynomial has less I, or takes fewer"
