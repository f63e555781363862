"""Initial schedules of a search, found without the solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph
from twill.graph.together import joined
from twill.graph.unroll import folded
from twill.smt.assignment import Assignment, repeated
from twill.smt.problem import Problem
from twill.zlp.effort import unending
from twill.zlp.grouping import proposals
from twill.zlp.heuristic import HeuristicSchedule, heuristic_schedule
from twill.zlp.memory_use import MemoryUse
from twill.zlp.sequential import in_orders, rank_of, sequential_schedule
from twill.zlp.slots import slots_of
from twill.zlp.ties import renamed, tied

HEURISTIC_TRIES = 3
PIECES = 2  # of a sum of products: while what was made of one row block's is tested, half of another's is multiplied

TOGETHER = "parts of products together"  # what a start of `joined_start` is called


@dataclass
class HeuristicStarts:
    """What the heuristic finds for the loops of one solve. It looks once for each loop, whoever asks first: which share
    of exponentials comes first is asked before the search of either begins."""

    _known: list[tuple[Problem, int, Assignment | None]] = field(default_factory=list)

    def find(
        self, problem: Problem, lower: int, over: Callable[[], bool], at_most: int | None = None
    ) -> Assignment | None:
        """As `heuristic_start`."""
        for other, least, start in self._known:
            if least == lower and other == problem:
                return start
        found = heuristic_start(problem, lower, over, at_most)
        if (at_most is None or found is not None) and not over():
            self._known.append((problem, lower, found))
        return found


def heuristic_start(
    problem: Problem, lower: int, over: Callable[[], bool], at_most: int | None = None
) -> Assignment | None:
    """What the heuristic finds from I = `lower` on; if nothing in a large loop, what runs one iteration at a time.
    over: whether the time has ended. at_most: the largest I that is of use (None: any is)."""
    graph, machine = problem.graph, problem.machine
    found = heuristic_schedule(graph, machine, lower, HEURISTIC_TRIES, over, at_most)
    if found is None and at_most is None and problem.large:
        choices = proposals(graph, machine, lower, over)
        found = sequential_schedule(graph, machine, choices)
    if found is None:
        return None
    return Assignment(graph, machine, slots_of(machine), found.ii, found.start, found.group)


def patient_start(problem: Problem, lower: int, over: Callable[[], bool]) -> Assignment | None:
    """What the heuristic finds if it takes its time, in the warp groups that are given; if nothing, one iteration at a
    time in an order that keeps few registers alive. over: whether that time has ended."""
    graph, machine = problem.graph, problem.machine
    together = tied(graph, problem.fixed)
    found = _in_place(problem, heuristic_schedule(together, machine, lower, over=over))
    if found is not None:
        return found
    choices = proposals(together, machine, lower, unending, problem.fixed)
    in_turn = [one for groups in choices for one in in_orders(graph, machine, groups, thrifty=True)]
    ranked = sorted(in_turn, key=lambda one: rank_of(graph, one))  # the best may take registers that other loops have
    return next((made for one in ranked if (made := _in_place(problem, one)) is not None), None)


def _in_place(problem: Problem, found: HeuristicSchedule | None) -> Assignment | None:
    """The schedule with its slots renamed, if it then keeps what other loops have fixed."""
    slots = slots_of(problem.machine)
    groups = None if found is None else renamed(found.group, slots, problem.fixed)
    if found is None or groups is None:
        return None
    made = Assignment(problem.graph, problem.machine, slots, found.ii, found.start, groups)
    return made if problem.keeps_fixed(made) else None


def repeated_start(problem: Problem, solve: Callable[[CostedGraph], Assignment | None]) -> Assignment | None:
    """The schedule of the loop that a large one is an unrolling of, as `solve` finds it, repeated."""
    small = folded(problem.graph) if problem.large and not problem.fixed and not problem.floors else None
    best = None if small is None else solve(small.graph)
    return None if best is None or small is None else repeated(best, problem.graph, small.times)


def joined_start(problem: Problem, solve: Callable[[CostedGraph], Assignment | None]) -> Assignment | None:
    """The schedule of the loop in which the parts of a product are issued together, as `solve` finds it, if there is a
    product in parts and memories hold them."""
    parts = None if problem.fixed or problem.floors else joined(problem.graph, PIECES)
    best = None if parts is None else solve(parts.graph)
    if best is None or parts is None:
        return None
    graph, machine, slots = problem.graph, problem.machine, best.slots
    found = Assignment(graph, machine, slots, best.ii, parts.starts(best.start), parts.slots(best.slot))
    memory_use = MemoryUse(graph, machine, slots, found.slot)
    return found if memory_use.possible() and memory_use.budgets(found.start, found.ii) is not None else None
