"""Compares the scheduling strategies on one kernel and machine.

Each schedule comes from `twill.solve.pipeline.solve` and so has passed `twill.schedule.checker.check`. Figures are in
cycles: those
of a schedule with normalized costs are its units times the cycles of a unit, which is an estimate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from pydantic import Field

from twill.document import Document
from twill.exc import BudgetExhausted, NormalizeTooCoarse, StrategyGaveUp
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule, Strategy
from twill.solve import pipeline
from twill.solve.pipeline import Report, SolveOptions

STRATEGIES: tuple[Strategy, ...] = ("joint", "paper", "heuristic", "none")

Notify = Callable[[Report], None]
Watch = Callable[[Strategy], AbstractContextManager[Notify | None]]


class Figures(Document):
    """What counts of a schedule.

    cycles_per_instance: I over the program instances fused. length: L in cycles. registers: per thread, the sum of
    the warp groups' budgets. proven: "all" objectives, "ii" (I meets a proven bound) or "none".
    cycles_per_unit: None with exact costs; else the normalization's, by which the cycles were multiplied.
    """

    cycles_per_instance: float
    fuse: int
    length: float
    copies: int
    registers: int
    warp_groups: int
    proven: Literal["all", "ii", "none"]
    cycles_per_unit: float | None


class StrategyRow(Document):
    """One strategy's. refusal: why there is no schedule, or no proof; "" if nothing is amiss.

    speedup: how many times shorter I for each instance is with joint; None if either has no schedule.
    """

    strategy: Strategy
    figures: Figures | None
    refusal: str
    seconds: float
    speedup: float | None = None


class Comparison(Document):
    """`twill compare --json`. budget_seconds: of each strategy."""

    schema_version: Literal["twill.comparison/1"] = Field(default="twill.comparison/1", alias="schema")
    kernel: str
    spec: str
    machine: str
    machine_digest: str
    normalize: int | None
    budget_seconds: float | None
    rows: tuple[StrategyRow, ...]


def compare(
    graph: DependenceGraph,
    machine: Machine,
    options: SolveOptions,
    watch: Watch | None = None,
    strategies: Sequence[Strategy] = STRATEGIES,
) -> Comparison:
    """A row for each of `strategies`, "joint" first. options.strategy is not looked at.

    watch: gives the receiver of a strategy's progress for as long as it runs.
    Raises Infeasible if joint proves that there is no schedule, and what `solve` raises of bad input.
    """
    rows = []
    for strategy in strategies:
        with watch(strategy) if watch is not None else nullcontext() as notify:
            rows.append(_row(graph, machine, options.model_copy(update={"strategy": strategy}), notify))
    joint = next((row.figures for row in rows if row.strategy == "joint"), None)
    return Comparison(
        kernel=graph.kernel,
        spec=graph.spec,
        machine=machine.name,
        machine_digest=machine.digest(),
        normalize=options.normalize,
        budget_seconds=options.budget,
        rows=tuple(row.model_copy(update={"speedup": _speedup(row.figures, joint)}) for row in rows),
    )


def figures_of(schedule: Schedule) -> Figures:
    """The figures of a schedule, in cycles."""
    unit = None if schedule.normalization is None else schedule.normalization.cycles_per_unit
    scale, fuse = unit or 1.0, schedule.cooperation.fuse
    optimal = all(loop.certificate.optimal for loop in schedule.loops)
    met = all(loop.certificate.lower_bound == loop.ii for loop in schedule.loops)
    return Figures(
        cycles_per_instance=round(schedule.ii * scale / fuse, 3),
        fuse=fuse,
        length=round(schedule.length * scale, 3),
        copies=schedule.copies,
        registers=sum(group.registers for group in schedule.warp_groups),
        warp_groups=len(schedule.warp_groups),
        proven="all" if optimal else "ii" if met else "none",
        cycles_per_unit=unit,
    )


def _row(graph: DependenceGraph, machine: Machine, options: SolveOptions, notify: Notify | None) -> StrategyRow:
    begun = time.perf_counter()
    schedule: object | None = None
    refusal = ""
    try:
        schedule = pipeline.solve(graph, machine, options, notify)
    except BudgetExhausted as ended:
        schedule, refusal = ended.schedule, ended.message
    except (StrategyGaveUp, NormalizeTooCoarse) as ended:
        refusal = ended.message
    figures = figures_of(schedule) if isinstance(schedule, Schedule) else None
    return StrategyRow(strategy=options.strategy, figures=figures, refusal=refusal, seconds=time.perf_counter() - begun)


def _speedup(figures: Figures | None, joint: Figures | None) -> float | None:
    if figures is None or joint is None:
        return None
    return round(figures.cycles_per_instance / joint.cycles_per_instance, 3)
