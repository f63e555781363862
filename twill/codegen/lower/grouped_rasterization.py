"""Whether program instances are walked in raster groups, for the L2 cache's sake.

Instances are independent, so any order is right. The CTAs that run at one time work on neighbours in the order. Where a
MMA reads one operand that moves with axis 0 of the grid and one that moves with axis 1, neighbours along axis 0
share the second and no part of the first; a raster group of rows, walked column by column, shares both.
"""

from __future__ import annotations

from math import prod

from twill.codegen.lower.memory import element_bytes
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Task

RASTER_GROUPS = (4, 8, 16, 32)


def raster_group_of(plan: LoweringPlan) -> int:
    """Rows of a raster group: those with which the CTAs that run at one time read least; 0 if raster groups save
    nothing."""
    rows, columns = moved(plan, 0), moved(plan, 1)
    if not rows or not columns:
        return 0
    ctas = int(plan.machine.sms.value)
    return min(RASTER_GROUPS, key=lambda raster_group: raster_group * rows + -(-ctas // raster_group) * columns)


def moved(plan: LoweringPlan, axis: int) -> int:
    """Bytes that MMAs read in one iteration of a loop and that move with this axis of the grid and no other."""
    loads = (t for t in plan.tasks.values() if t.node.kind == "load" and t.region in plan.loops)
    multiplied = (t for t in loads if any(reader.node.kind == "mma" for reader in plan.readers(t.place)))
    return sum(size(plan, task) for task in multiplied if axes(plan, task) == {axis})


def axes(plan: LoweringPlan, task: Task) -> set[int]:
    """The axes of the launch grid that the place of a load depends on."""
    return grid_axes(plan, address_scalars(plan, task))


def address_scalars(plan: LoweringPlan, task: Task) -> frozenset[int]:
    """Every scalar that the place of a load is made of."""
    access = plan.last_step(task).op.access
    assert access is not None
    scalars = plan.wired.scalars
    return scalars.reach_of(access.constant).union(*(scalars.reach_of(axis.offset) for axis in access.axes))


def grid_axes(plan: LoweringPlan, values: frozenset[int]) -> set[int]:
    """The axes of the launch grid whose indices are among scalars."""
    makers = plan.wired.uniformity.makers
    made = [makers[value] for value in values if value in makers]
    return {int(str(dict(op.attributes).get("axis", 0))) for op in made if op.kind == "program_id"}


def size(plan: LoweringPlan, task: Task) -> int:
    """Bytes of the tile that a load brings."""
    cell = plan.last_step(task).results[0]
    return prod(plan.tiles.core(cell)) * element_bytes(plan.flat.cells[cell].type.element)
