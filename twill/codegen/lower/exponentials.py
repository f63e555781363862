"""Which exponentials are polynomials in part, as the schedule says (`twill.graph.exponentials`)."""

from __future__ import annotations

from twill.codegen.lower.task import Task
from twill.codegen.warp.layout import Layout, elements_of
from twill.codegen.warp.program import POLYNOMIAL
from twill.graph.exponentials import GROUP, splittable
from twill.schedule.document import Schedule
from twill.tile.flat import Flat, Step


def polynomial_of(task: Task, schedule: Schedule) -> int:
    """How many of 16 exponentials of a task are polynomials."""
    return schedule.cooperation.polynomial if splittable(task.node) else 0


def in_part(step: Step, flat: Flat, layout: Layout, polynomial: int) -> tuple[tuple[str, int], ...]:
    """What a step says of them: nothing if it is no exponential of f32 that the unit of special functions makes, or has
    no 16 registers of a thread."""
    exponential = step.op.kind in ("exp", "exp2") and flat.cells[step.results[0]].type.element == "f32"
    exact = bool(dict(step.op.attributes).get("accurate"))
    if not polynomial or not exponential or exact or elements_of(layout) % GROUP:
        return ()
    return ((POLYNOMIAL, polynomial),)
