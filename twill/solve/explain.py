"""`twill explain`: why something better, or something asked for, is impossible; in words.

The kernel is solved first. Then each question (a smaller I, fewer copies, fewer warp groups, given
pins) is put to the solver for the cooperation that won, and a minimal unsatisfiable core is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twill.exc import BudgetExhausted, Infeasible
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import LoopSchedule, Schedule
from twill.smt.explain import ExplainRequest, Explanation
from twill.smt.explain import explain as explain_loop
from twill.smt.pins import parse_pin
from twill.solve.pipeline import SolveOptions, solve

SECONDS = 60.0


@dataclass(frozen=True)
class ExplainLimits:
    """Beside `SolveOptions.ii` and pins: at most so many copies, at most so many warp groups."""

    copies: int | None = None
    groups: int | None = None


def explain(graph: DependenceGraph, machine: Machine, options: SolveOptions, asked: ExplainLimits | None = None) -> str:
    """The answer to what was asked, or why nothing is better than the optimum if nothing was asked.

    Raises `Infeasible` if the kernel has no schedule at all, `BudgetExhausted` if it was not solved.
    """
    asked = asked or ExplainLimits()
    optimum = solve(graph, machine, options.model_copy(update={"ii": None, "pins": ()}))
    main = next(loop for loop in optimum.loops if loop.certificate == optimum.certificate)
    found = f"I = {optimum.ii}, {optimum.copies} copies, {len(optimum.warp_groups)} warp groups"
    header = f"{graph.kernel} on {machine.name}: {found}"
    return "\n\n".join([header, *_answers(machine, options, asked, optimum, main)])


def _answers(
    machine: Machine, options: SolveOptions, asked: ExplainLimits, optimum: Schedule, main: LoopSchedule
) -> Iterator[str]:
    pins = tuple(parse_pin(p) for p in options.pins)
    if options.ii is not None or pins or asked.copies is not None or asked.groups is not None:
        request = ExplainRequest(options.ii or optimum.ii, asked.copies, asked.groups, pins)
        yield answer(main.graph, machine, request)
        if options.ii is not None and options.ii < optimum.ii:
            yield from _others(optimum)
        return
    if optimum.ii > 1:
        yield answer(main.graph, machine, ExplainRequest(optimum.ii - 1))
        yield from _others(optimum)
    if optimum.copies > 1:
        yield answer(main.graph, machine, ExplainRequest(optimum.ii, copies=optimum.copies - 1))
    if len(optimum.warp_groups) > 1:
        yield answer(main.graph, machine, ExplainRequest(optimum.ii, groups=len(optimum.warp_groups) - 1))


def answer(graph: CostedGraph, machine: Machine, request: ExplainRequest) -> str:
    """One question and its answer as a paragraph."""
    try:
        found = explain_loop(graph, machine, request, SECONDS)
    except TimeoutError:
        return f"{spelled(request)}: not decided within {SECONDS:.0f} s"
    if found is None:
        return f"{spelled(request)} is possible."
    return "\n".join([f"{spelled(request)} is impossible:", *(f"  - {s}" for s in found.sentences), *_footnote(found)])


def spelled(request: ExplainRequest) -> str:
    """The request in words: "I = 7 with at most 2 copies"."""
    parts = [f"I = {request.ii}"]
    limits = []
    if request.copies is not None:
        limits.append(f"at most {request.copies} {'copy' if request.copies == 1 else 'copies'}")
    if request.groups is not None:
        limits.append(f"at most {request.groups} warp groups")
    limits.extend(f"the pin {p.text}" for p in request.pins)
    return " with ".join([*parts, " and ".join(limits)]) if limits else parts[0]


def _footnote(found: Explanation) -> list[str]:
    if found.minimal:
        return []
    return ["  (these rules exclude each other; some of them may not be needed)"]


def _others(optimum: Schedule) -> Iterator[str]:
    """What became of the other cooperations, since a smaller I could have come from them."""
    lines = []
    for c in optimum.candidates:
        if c.cooperation == optimum.cooperation:
            continue
        name = f"{c.cooperation.blocks} row block{'s' if c.cooperation.blocks > 1 else ''}"
        fused = f", {c.cooperation.fuse} instances fused" if c.cooperation.fuse > 1 else ""
        lines.append(f"  - {name}{fused}: {c.verdict}")
    if lines:
        yield "\n".join(["The other cooperations:", *lines])


__all__ = ["ExplainLimits", "BudgetExhausted", "Infeasible", "explain"]
