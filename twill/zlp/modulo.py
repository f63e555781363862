"""The modulo schedule: the smallest I that dependences and units allow, with no thought of warp groups.

The first phase of the paper (its modulo scheduling ILP), solved with SCIP. For a fixed I the starts t_v
are integers, and two uses of a unit are kept apart modulo I by one integer q for each pair,

    c_v ≤ (t_u + a_u) − (t_v + a_v) − q·I ≤ I − c_u,

so the size of the program does not depend on the number of cycles. A dependence pays its crossing only if
no warp group can hold both ends. Since every rule of it is a rule of docs/model.md, its I is a lower bound
for the joint schedule, and its starts are a first guess.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pyscipopt import Model

from twill.graph.costed import CostedGraph
from twill.zlp.bound import ceil_div
from twill.zlp.recurrence import certain_arcs, recurrence_bound
from twill.zlp.resource import resource_bound

Status = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True)
class ModuloSchedule:
    """starts: instruction id -> cycle, the earliest 0. length: L, the last result's cycle.

    lower_bound: no smaller I exists. proven_length: whether L is minimal at this I for the warp-free problem. seconds:
    what it took.
    """

    ii: int
    length: int
    starts: dict[int, int]
    lower_bound: int
    proven_length: bool
    seconds: float

    @property
    def copies(self) -> int:
        """⌈L / I⌉: iterations in flight."""
        return max(1, ceil_div(self.length, self.ii))


@dataclass(frozen=True)
class ModuloFailure:
    """The time ended without a schedule: every I below `lower_bound` was proven impossible."""

    lower_bound: int
    seconds: float


@dataclass(frozen=True)
class _Answer:
    status: Status
    starts: dict[int, int]
    length: int


def modulo_schedule(
    graph: CostedGraph, *, least_ii: int = 1, seconds: float | None = None
) -> ModuloSchedule | ModuloFailure:
    """The warp-free schedule of least I, and of least length at that I.

    Every I from the larger of `least_ii`, the resource and the recurrence bound upwards is tried until one
    is feasible. `seconds` limits all of it (None: no limit); a limit that ends the proof for some I lets
    the search go on at larger I, and `lower_bound` stays where the proof ended.
    Raises ImpossibleCycle (twill.exc).
    """
    begun = time.perf_counter()
    least = max(least_ii, resource_bound(graph).value, recurrence_bound(graph).value, 1)
    proven = least
    ii = least
    while True:
        left = None if seconds is None else seconds - (time.perf_counter() - begun)
        if left is not None and left <= 0:
            return ModuloFailure(proven, time.perf_counter() - begun)
        # An undecided I may take half of what is left, so that larger ones have their turn.
        answer = solve_at(graph, ii, None if left is None else max(left / 2, 0.05))
        if answer.starts:
            spent = time.perf_counter() - begun
            return ModuloSchedule(ii, answer.length, answer.starts, proven, answer.status == "optimal", spent)
        if answer.status == "infeasible" and proven == ii:
            proven = ii + 1
        ii += 1


def solve_at(graph: CostedGraph, ii: int, seconds: float | None) -> _Answer:
    """The shortest warp-free schedule with initiation interval `ii`, or that there is none."""
    if resource_bound(graph).value > ii:
        return _Answer("infeasible", {}, 0)
    model = Model("modulo")
    model.hideOutput()
    if seconds is not None:
        model.setParam("limits/time", seconds)
    horizon = longest_schedule(graph, ii)
    start = {i.id: model.addVar(f"t{i.id}", vtype="I", lb=0, ub=horizon) for i in graph.instructions}
    length = model.addVar("L", vtype="I", lb=0)
    for instruction in graph.instructions:
        model.addCons(start[instruction.id] + instruction.latency <= length)
    for arc in certain_arcs(graph):
        if arc.src != arc.dst:
            model.addCons(start[arc.dst] - start[arc.src] >= arc.delay - arc.distance * ii)
        elif arc.delay > arc.distance * ii:
            return _Answer("infeasible", {}, 0)
    turns = ceil_div(horizon, ii) + 2
    for number, (u, v, lag, room_v, room_u) in enumerate(conflicts(graph)):
        # t_u - t_v + lag lies in [room_v, ii - room_u] modulo ii
        if u == v:
            if not room_v <= lag % ii <= ii - room_u:
                return _Answer("infeasible", {}, 0)
            continue
        turn = model.addVar(f"q{number}", vtype="I", lb=-turns, ub=turns)
        apart = start[u] - start[v] + lag % ii - ii * turn
        model.addCons(apart >= room_v)
        model.addCons(apart <= ii - room_u)
    model.setObjective(length, "minimize")
    model.optimize()
    if model.getStatus() == "userinterrupt":
        raise KeyboardInterrupt  # SCIP takes Ctrl-C for itself
    if model.getNSols() == 0:
        return _Answer("infeasible" if model.getStatus() == "infeasible" else "unknown", {}, 0)
    times = {number: round(model.getVal(variable)) for number, variable in start.items()}
    first = min(times.values())
    times = {number: t - first for number, t in times.items()}
    last = max(times[i.id] + i.latency for i in graph.instructions)
    return _Answer("optimal" if model.getStatus() == "optimal" else "feasible", times, last)


def conflicts(graph: CostedGraph) -> Iterator[tuple[int, int, int, int, int]]:
    """Pairs of uses of one unit: (u, v, start_u − start_v, cycles_v, cycles_u), each pair once.

    Interleaved units take turns cycle by cycle: the resource bound is all that they ask.
    """
    exclusive = [(i.id, use) for i in graph.instructions for use in i.uses if use.unit not in graph.interleaved]
    uses = [(number, use) for number, use in exclusive if use.cycles]
    for index, (u, mine) in enumerate(uses):
        for v, other in uses[index + 1 :]:
            if mine.unit == other.unit:
                yield u, v, mine.start - other.start, other.cycles, mine.cycles


def longest_schedule(graph: CostedGraph, ii: int) -> int:
    """A start time that no instruction of a shortest schedule exceeds.

    Take the instructions in the order of their starts. A gap between neighbours of more than the largest
    |delay| and distance·I is crossed by no dependence that limits it from above, nor needed by one that
    limits it from below, so whole periods can be taken out of it and less than one more is left.
    """
    arcs = certain_arcs(graph)
    delay = max((abs(arc.delay) for arc in arcs), default=0)
    distance = max((arc.distance for arc in arcs), default=0)
    return len(graph.instructions) * (delay + (distance + 1) * ii)
