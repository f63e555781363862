"""The certificate's arithmetic: that what it claims follows from the steps it lists.

Whether a solver's verdict is right cannot be seen without solving; whether the verdicts, if
right, prove the claim can.
"""

from __future__ import annotations

from collections.abc import Iterator

from twill.graph.costed import CostedGraph
from twill.schedule.checker.violation import BrokenRule, violation
from twill.schedule.document import LoopSchedule, SolverStep

OBJECTIVES = ("ii", "copies", "crossing", "length", "registers")


def certificate(loop: LoopSchedule) -> Iterator[BrokenRule]:
    """Everything that docs/model.md asks of a certificate."""
    for message in [*bounds(loop), *steps(loop), *claim(loop)]:
        yield violation("certificate", message, loop=loop.loop)


def bounds(loop: LoopSchedule) -> Iterator[str]:
    """Bounds are bounds: none above the schedule's own I, the resource bound not above the busiest unit."""
    named = loop.certificate.bounds
    for name in ("resource", "recurrence", "memory", "issue"):
        if getattr(named, name) > loop.ii:
            yield f"the {name} bound is {getattr(named, name)}, but the schedule has initiation interval {loop.ii}"
    busiest = max([1, *unit_cycles(loop.graph).values()])
    if named.resource > busiest:
        yield f"the resource bound is {named.resource}, but the busiest unit works {busiest} cycles per iteration"


def steps(loop: LoopSchedule) -> Iterator[str]:
    """Every step asks about a range and contradicts neither the schedule nor the bounds."""
    best = loop.certificate.bounds.best
    for number, step in enumerate(loop.certificate.steps):
        asked = f"step {number} ({step.question!r} for I in [{step.ii}, {step.ii_to}])"
        if not 1 <= step.ii <= step.ii_to:
            yield f"{asked} is about no initiation interval"
        if step.verdict == "bound" and step.ii_to >= best:
            yield f"{asked} is refuted by a bound, but the best bound is {best}"
        if refutes(step) and step.ii <= loop.ii <= step.ii_to:
            yield f"{asked} is refuted, but the schedule has initiation interval {loop.ii}"
        found = step.question == "feasible" and step.verdict in ("feasible", "optimal")
        if found and loop.certificate.optimal and step.ii_to < loop.ii:
            yield f"{asked} is {step.verdict}, so initiation interval {loop.ii} is not optimal"


def claim(loop: LoopSchedule) -> Iterator[str]:
    """Every smaller initiation interval is below a bound or refuted by a step."""
    proof = loop.certificate
    if proof.lower_bound < 1:
        yield f"the lower bound is {proof.lower_bound}; every initiation interval is at least 1"
    if proof.lower_bound > loop.ii:
        yield f"the lower bound is {proof.lower_bound}, but the schedule has initiation interval {loop.ii}"
    proven = min(proven_bound(loop), loop.ii)
    if proof.lower_bound <= loop.ii and proof.lower_bound > proven:
        yield f"the lower bound is {proof.lower_bound}, but neither bounds nor steps say anything about I = {proven}"
    if proof.optimal and proof.lower_bound != loop.ii:
        yield f"it claims optimality, but only I >= {proof.lower_bound} is claimed as proven, not {loop.ii}"
    if proof.optimal and "ii" not in loop.objective.proven:
        yield "it claims optimality, but the objective does not list ii as proven"
    if not proof.optimal and "ii" in loop.objective.proven and proof.lower_bound != loop.ii:
        yield f"the objective lists ii as proven, but the lower bound is {proof.lower_bound}, not {loop.ii}"


def proven_bound(loop: LoopSchedule) -> int:
    """The smallest I that is neither below the best bound nor in the range of a refuting step."""
    smallest = loop.certificate.bounds.best
    for first, last in sorted((step.ii, step.ii_to) for step in loop.certificate.steps if refutes(step)):
        if first > smallest:
            break
        smallest = max(smallest, last + 1)
    return smallest


def refutes(step: SolverStep) -> bool:
    """Whether the step rules out its initiation intervals, whatever the number of copies."""
    return step.question == "feasible" and step.copies == 0 and step.verdict in ("infeasible", "bound")


def unit_cycles(graph: CostedGraph) -> dict[str, int]:
    """Cycles that one iteration keeps each unit busy."""
    cycles: dict[str, int] = {}
    for instruction in graph.instructions:
        for use in instruction.uses:
            cycles[use.unit] = cycles.get(use.unit, 0) + use.cycles
    return cycles
