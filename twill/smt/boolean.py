"""The joint problem as the Twill paper states it: one Boolean for each instruction, iteration and cycle.

The paper (arXiv 2512.18134, figures 4 to 6) asks whether a loop has a schedule of initiation interval I and length L,
with Booleans op(v, i, t) for the iterations that overlap in a straight-line program, live(x, i, t), and one-hot warp
groups opw(v, w). The size of that grows with the number of cycles, so it is meant for normalized costs;
`twill.smt.search` is what `twill solve` runs. It is here to be compared with (`twill.smt.paper`, `benchmarks/solve.py`)
and to check the compact encoding.

`twill.smt.grid_rules` names every departure from what is printed; the valid schedules are those of docs/model.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import z3

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt import boolean_groups, grid_rules
from twill.smt.assignment import Assignment
from twill.smt.backend import Outcome
from twill.smt.grid import Grid
from twill.smt.interrupt import interruptible

SOLVER = f"z3 {z3.get_version_string()} (Boolean)"

RULES: tuple[Callable[[Grid], None], ...] = (
    grid_rules.uniqueness,
    grid_rules.consistency,
    grid_rules.completion,
    boolean_groups.warp_uniqueness,
    grid_rules.dependence,
    grid_rules.cross_warp_spills,
    grid_rules.capacity,
    boolean_groups.variable_latency,
    grid_rules.memory_capacity,
    grid_rules.concurrency,
    grid_rules.concurrency_of_spills,
    grid_rules.register_limit,
)


@dataclass(frozen=True)
class BooleanAnswer:
    """Verdict of one (I, L), seconds of all and of deciding alone, and the size of the problem.

    assignment: starts and warp groups if sat, else None. "unknown": the time ran out.
    """

    outcome: Outcome
    seconds: float
    deciding: float
    assignment: Assignment | None
    variables: int
    clauses: int


def solve_boolean(graph: CostedGraph, machine: Machine, ii: int, length: int, seconds: float) -> BooleanAnswer:
    """Whether `graph` has a schedule with initiation interval `ii` and L <= `length`, both in cycles."""
    begun = time.perf_counter()
    window = Grid(graph, machine, ii, length)
    outcome: Outcome = "unknown"
    assignment, deciding = None, 0.0
    if _build(window, begun + seconds):
        context = z3.Context()
        solver = z3.SimpleSolver(ctx=context)
        solver.set("relevancy", 0)  # as in twill.smt.backend
        solver.from_string("\n".join(window.text))
        left = begun + seconds - time.perf_counter()
        if left > 0:
            asked = time.perf_counter()
            solver.set("timeout", max(1, int(min(left * 1000, 0xFFFFFFFF))))
            verdict = interruptible(solver, solver.check)
            deciding = time.perf_counter() - asked
            outcome = {z3.sat.r: "sat", z3.unsat.r: "unsat"}.get(verdict.r, "unknown")  # type: ignore[assignment]
            if outcome == "sat":
                assignment = _read(window, solver.model())
    return BooleanAnswer(outcome, time.perf_counter() - begun, deciding, assignment, window.variables, window.clauses)


def _build(window: Grid, deadline: float) -> bool:
    """State every rule; False if the time ran out before."""
    for rule in RULES:
        if time.perf_counter() > deadline:
            return False
        rule(window)
    return True


def _read(window: Grid, model: z3.ModelRef) -> Assignment:
    """Starts, shifted to begin at 0, and slots."""
    true = {d.name() for d in model.decls() if z3.is_true(model[d])}
    ids = [i.id for i in window.graph.instructions]
    starts = [next(t for t in range(window.latest(v) + 1) if window.first(v, t) in true) for v in ids]
    slots = [next(s.id for s in window.slots_of(v) if window.member(v, s) in true) for v in ids]
    origin = min(starts)
    return Assignment(
        window.graph, window.machine, window.slots, window.ii, tuple(t - origin for t in starts), tuple(slots)
    )
