"""The margin: time for MMAs to end later than the model says, because other work shares the tensor core.

What an MMA of the tensor core takes depends on what else is under way: MMAs of other warp groups, the power
limit, the arrival of an operand. A schedule that reads its result in the very cycle in which it is ready loses a
cycle of every iteration for each cycle that it is late. Of the schedules of equal I, copies and crossing, those are
looked for in which MMAs may be late by the same number of cycles, as many as possible: the margin. They are the
schedules of a graph in which every instruction that waits for an MMA waits so much longer. An MMA that shares
the tensor core with those of n other warp groups takes n + 1 times its time: no larger margin is looked for. And the
MMAs of a warp group follow one another, so that the tensor core goes from group to group once in every I: an
order that emitted code can keep (`twill.codegen.lower.ordering_barriers`), and in which no result has to wait for
MMAs of another group.

The more warp groups share the tensor core, the later the last of them has its turn: where the fewest copies leave no
margin, one more copy may (three row blocks of attention, whose MMAs of two iterations make one run).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations

from twill.graph.costed import CostedEdge, CostedGraph
from twill.graph.mma_hazards import awaited, hazard_pairs, is_mma, one_result
from twill.smt.assignment import Assignment
from twill.smt.encoding import Encoding
from twill.smt.limits import OutOfBudget
from twill.smt.objectives import crossing_at_most, length_at_most
from twill.smt.questions import Questions
from twill.zlp.bounds import lower_bounds

PARTS = 16  # a margin is a multiple of the largest one / PARTS
EFFORT = 20_000_000  # of the solver's counter for one margin; what takes more counts as impossible


def with_margin(graph: CostedGraph, cycles: int) -> CostedGraph:
    """The graph in which what waits for an MMA waits `cycles` longer."""
    edges = tuple(e.model_copy(update={"delay": e.delay + cycles}) if awaited(graph, e) else e for e in graph.edges)
    return graph.model_copy(update={"edges": edges})


def longest(graph: CostedGraph, edge: CostedEdge) -> int:
    """Cycles for which the MMA that the edge waits for has its unit; 0 if it waits for none."""
    return max((u.cycles for u in graph.instructions[edge.src].uses), default=0) if awaited(graph, edge) else 0


def largest(graph: CostedGraph, found: Assignment) -> int:
    """The largest margin that is looked for: the longest MMA, as often as other groups share its unit."""
    groups = {found.slot[i.id] for i in graph.instructions if is_mma(i)}
    return max(longest(graph, e) for e in graph.edges) * max(1, len(groups) - 1)


@dataclass(frozen=True)
class Room:
    """What was found. questions: about the graph with the largest margin, with a schedule of it as their best; None if
    there is no margin. ended: whether the budget ended before the largest one was known."""

    questions: Questions | None
    ended: bool = False


def widest(questions: Questions, more: int = 0) -> Room:
    """The largest margin that I, copies and crossing of the best assignment leave; none if nothing waits for one. more:
    copies beyond those of the best assignment."""
    graph, found = questions.problem.graph, questions.found
    if not any(awaited(graph, edge) for edge in graph.edges):
        return without_hazards(questions, more)
    most = largest(graph, found)
    best: Questions | None = None
    low, high = 0, PARTS + 1  # low is possible, high is not
    while high - low > 1:
        middle = (low + high) // 2 if high <= PARTS else PARTS
        try:
            tried = _ask(questions, found, middle * most // PARTS, more)
        except OutOfBudget:
            return Room(best, ended=True)
        if tried is None:
            high = middle
        else:
            low, best = middle, tried
    return Room(best)


def without_hazards(questions: Questions, more: int) -> Room:
    """Where nothing in the loop waits for an MMA's result: a schedule in which no operand of an MMA in registers, of
    the next iteration or of another MMA, is written while one is in flight. Emitted code waits there."""
    if not hazard_pairs(questions.problem.graph):
        return Room(None)
    try:
        return Room(_ask(questions, questions.found, 0, more))
    except OutOfBudget:
        return Room(None, ended=True)


def one_run(e: Encoding) -> Iterator[str]:
    """Modulo I, no MMA of another warp group starts between the MMAs of one."""
    mmas = [i.id for i in e.graph.instructions if is_mma(i)]
    for a, b in combinations(mmas, 2):
        for c, d in combinations(sorted(set(mmas) - {a, b}), 2):
            together = [e.same(a, b), e.same(c, d), f"(not {e.same(a, c)})"]
            if "false" in together or "(not true)" in together:
                continue
            yield f"(=> (and {' '.join(together)}) (= {_between(e, a, c, b)} {_between(e, a, d, b)}))"


def no_more_memory(e: Encoding, found: Assignment) -> list[str]:
    """Rings take no more bytes than in `found`: what they leave is room for tiles on their way out of the kernel."""
    terms = []
    for space in sorted({value.space for value in e.graph.values} - {"register"}):
        rings = [value for value in e.graph.values if value.space == space and value.storage is None]
        if rings:
            most = sum(value.bytes * found.depth(value) for value in rings)
            terms.append(f"(<= (+ 0 {' '.join(f'(* {value.bytes} depth{value.id})' for value in rings)}) {most})")
    return terms


def _between(e: Encoding, first: int, middle: int, last: int) -> str:
    """Counting rows up from `first`, `middle` comes before `last`."""
    a, b, c = e.start(first), e.start(middle), e.start(last)
    turns = ((a, b, c), (b, c, a), (c, a, b))
    return f"(or {' '.join(f'(and {e.before(x, y)} {e.before(y, z)})' for x, y, z in turns)})"


def _ask(questions: Questions, found: Assignment, cycles: int, more: int) -> Questions | None:
    """Questions about this margin, if there is a schedule that has it."""
    copies = found.copies + more
    graph = with_margin(one_result(questions.problem.graph), cycles)
    if lower_bounds(graph, questions.problem.machine).best > found.ii:
        return None  # a chain of dependences comes round too late: no question is needed
    problem = replace(questions.problem, graph=graph, hazards=True)
    asked = Questions(problem, questions.limits, questions.open_session, least_ii=found.ii, steps=questions.steps)
    e = asked.about((found.ii, found.ii))
    asked.keep([length_at_most(e, copies * found.ii), crossing_at_most(e, found.crossing)])
    asked.keep(chain(one_run(e), no_more_memory(e, found) if not more else ()))
    answer = asked.probe(f"margin >= {cycles}", copies, [], EFFORT, only_found=True)
    return asked if answer == "sat" else None
