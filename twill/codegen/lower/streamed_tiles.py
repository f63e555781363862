"""Loops whose tiles no other program instance reads: they come from memory, not from the L2 cache.

A product that reads each of its tiles once (attention of one query to the keys of its sequence) is as fast as memory.
That is used best with no more on its way to an SM than it takes to keep it busy, by no more CTAs than compute as fast
as it brings tiles (the last instances end at about the same time where each of them is a smaller part of an SM's), and
where what the CTAs read at one time lies side by side: rows of a tile that are shorter than a page of memory go on in
the tile of the next instance along one axis of the launch grid.
"""

from __future__ import annotations

from collections import Counter

from twill.codegen.lower.grouped_rasterization import address_scalars, grid_axes
from twill.codegen.lower.occupancy import time_of_iteration
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Task
from twill.tile.affine import Polynomial
from twill.tile.program import Loop

INJECTIVE = ("program_id", "num_programs", "constant", "add", "sub", "mul", "cast", "tile_load")  # of other indices


def streamed(plan: LoweringPlan) -> list[Task]:
    """The loads of all loops, if no other program instance reads any of what they read, and MMAs read some of it; none
    otherwise."""
    loads = [task for task in plan.tasks.values() if task.node.kind == "load" and task.region in plan.loops]
    multiplied = any(reader.node.kind == "mma" for task in loads for reader in plan.readers(task.place))
    makers = plan.wired.uniformity.makers.values()
    grid = {int(str(dict(op.attributes).get("axis", 0))) for op in makers if op.kind == "program_id"}
    reached = [with_beginnings(plan, address_scalars(plan, task)) for task in loads] if multiplied else []
    return loads if multiplied and all(_is_own(plan, one) and grid_axes(plan, one) == grid for one in reached) else []


def with_beginnings(plan: LoweringPlan, found: frozenset[int]) -> frozenset[int]:
    """Scalars that an address is made of, and those that its loops' first indices are made of, where a loop ends
    elsewhere in other instances, too: each of them reads a part of one sequence."""
    scalars = plan.wired.scalars
    for loop in (item for item in plan.wired.program.body if isinstance(item, Loop)):
        begins = scalars.reach(loop.lower)
        if loop.induction in found and grid_axes(plan, begins) <= grid_axes(plan, scalars.reach(loop.upper)):
            found |= begins
    return found


def _is_own(plan: LoweringPlan, values: frozenset[int]) -> bool:
    """Whether instances with other indices read other tiles: what is divided, or bounded, may be the same for many."""
    makers = plan.wired.uniformity.makers
    return all(makers[value].kind in INJECTIVE for value in values if value in makers)


def keep_up(plan: LoweringPlan, ctas: int) -> bool:
    """Whether so many CTAs of an SM compute as fast as memory brings such tiles when all SMs ask for some. Never where
    the machine file does not say how fast that is (`memory_rate`, bytes a cycle)."""
    rate, arriving = plan.machine.emitting.memory_rate, Counter[int]()
    for task in streamed(plan):
        arriving[task.region] += task.node.bytes
    if rate is None or not arriving:
        return False
    taken = {loop.loop: time_of_iteration(loop) for loop in plan.schedule.loops}
    return all(taken[loop] * rate.value <= size * ctas for loop, size in arriving.items())


def lie_side_by_side(plan: LoweringPlan) -> bool:
    """Whether rows of such tiles go on in those of the next instance along axis 1 of the launch grid."""
    loads = streamed(plan)
    return bool(loads) and all(_goes_on(plan, task) for task in loads)


def _goes_on(plan: LoweringPlan, task: Task) -> bool:
    """Whether the rows of a tile begin behind those of the instance before, along axis 1."""
    access = plan.last_step(task).op.access
    assert access is not None
    inner = access.axes[-1]
    makers = plan.wired.uniformity.makers
    moved = [value for value in inner.offset.symbols() if value in makers]
    if inner.stride != Polynomial.constant_of(1) or len(moved) != 1:
        return False
    made = makers[moved[0]]
    is_next = made.kind == "program_id" and int(str(dict(made.attributes).get("axis", 0))) == 1
    return is_next and inner.offset == Polynomial.symbol(moved[0]) * inner.extent
