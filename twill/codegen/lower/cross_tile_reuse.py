"""Tiles that stay in their ring from one program instance to the next, so that they are loaded once for several.

Of an MMA, neighbouring program instances read one operand alike: a column of tiles of C has the same B. Where a loop
has as many tiles as their ring has slots, the slot that one goes to still holds it when the next instance wants it:
what was there `depth` loads ago. The load group then says that the slot is full and loads nothing; whoever reads it
cannot tell.

That is worth more the longer a CTA stays with neighbours. Where tiles fit, CTAs therefore have runs of neighbours in
the order of program instances instead of every n-th. Where they do not, all CTAs together had better be neighbours, for
the L2 cache's sake: whether they fit is known at a launch. (Fewer tiles, of which several instances fill the ring,
could stay as well; stores then bind, and runs of neighbours lose: docs/performance-log.md.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from twill.codegen.lower.cross_loop_reuse import position
from twill.codegen.lower.multicast import Unlike, asked_for, depends, fixed, loops, seldom, symbols
from twill.codegen.lower.placement import Placement, Ring
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.scalars import OUTSIDE, InlinedScalars, ScalarTable
from twill.codegen.lower.task import Place, Task
from twill.codegen.warp.expression import Apply, Expr, Local, Number, less
from twill.codegen.warp.program import CountReuse, Let, Stmt
from twill.tile.program import Loop
from twill.tile.uniformity import stretches

FIRST = 0  # the axis of the launch grid along which neighbours in its order, or in a raster group, differ


@dataclass(frozen=True)
class TileReuse:
    """Tiles of a loop that may stay. values: scalars of the tile program; program instances that have the same want the
    same tiles. loop: of the tile program. depth: of the ring."""

    values: tuple[int, ...]
    loop: Loop
    depth: int


def tile_reuse(plan: LoweringPlan, by_place: Iterable[Ring], task: Task, ring: Ring) -> TileReuse | None:
    """What a load brings if it may stay: a tile that neighbours want alike, alone in its ring, of a tensor that the
    kernel does not write, in a loop of nothing but MMAs. None if it may not."""
    if plan.wired.program.walk is not None or not plan.only_multiplies() or task.node.transport != "tma":
        return None
    if plan.candidate.overlay:
        return None  # another loop may use the ring's memory in between
    alone = sum(other.aref.id == ring.aref.id for other in by_place) == 1
    if not alone or ring.held or ring.aref.shared or ring.aref.pair or position(plan.reuse_groups, task.place)[1] > 1:
        return None
    access = plan.last_step(task).op.access
    if access is None or task.region not in plan.loops or plan.is_written(task.node.tensor or ""):
        return None
    loop = loop_of(plan, task.region)
    if any(plan.wired.scalars.reach(value) & plan.wired.uniformity.lookups for value in symbols(access)):
        return None
    begins = [value for bounds in loops(plan, task.region) for value in (bounds[0], bounds[2])]
    if any(on_grid(plan, value) for value in begins):
        return None
    wanted = [value for value in sorted(symbols(access) - {loop.induction}) if varies(plan, value)]
    return (
        TileReuse(tuple(wanted), loop, ring.aref.depth) if all(varies_slowly(plan, value) for value in wanted) else None
    )


def loop_of(plan: LoweringPlan, region: int) -> Loop:
    """The loop that a region is."""
    number = plan.wired.stretch[region]
    return next(loop for n, loop, _ in stretches(plan.wired.program) if n == number and loop is not None)


def on_grid(plan: LoweringPlan, value: int) -> bool:
    """Whether a scalar depends on any axis of the launch grid."""
    return any(depends(plan, value, axis) for axis in asked_for(plan))


def varies(plan: LoweringPlan, value: int) -> bool:
    """Whether a scalar is not the same in all instances and iterations."""
    counters = {item.induction for item in plan.wired.program.body if isinstance(item, Loop)}
    return on_grid(plan, value) or bool(
        plan.wired.scalars.reach(value) & (counters | set(plan.wired.uniformity.carries))
    )


def varies_slowly(plan: LoweringPlan, value: int) -> bool:
    """Whether a scalar that moves is the same in most neighbours, and in all iterations."""
    expr = fixed(plan, value)
    if isinstance(expr, Unlike):
        return False
    return not depends(plan, value, FIRST) or seldom(expr, FIRST)


def reuse_conditions(found: TileReuse, scalars: ScalarTable) -> tuple[list[Stmt], Expr]:
    """What a load group finds out at the start of an instance, and whether the tiles of its loop are in their slots."""
    trip = scalars.trip(found.loop)
    values = (*(scalars.value(value, OUTSIDE) for value in found.values), trip)
    alike, same = scalars.fresh("alike"), scalars.fresh("stays")
    there = conjunction(fits(trip, found.depth), less(Number(0), Local(alike)))
    return [CountReuse(alike, values), Let(same, there)], Local(same, "i1")


def fits(trip: Expr, depth: int) -> Expr:
    """Whether the tiles of a loop fill its ring once."""
    return Apply("compare", (trip, Number(depth)), "i1", (("predicate", "eq"), ("signed", 1)))


def conjunction(left: Expr, right: Expr) -> Expr:
    """left and right."""
    return Apply("and", (left, right), "i1")


def runs(plan: LoweringPlan, rings: Placement) -> Expr | None:
    """Whether a launch had better give CTAs runs of neighbours: some tile stays; None if none ever does."""
    made: dict[Expr, None] = {}
    for place, ring in rings.by_place.items():
        found = of_place(plan, rings.by_place.values(), place, ring)
        if found is not None and not on_grid(plan, found.loop.upper):
            made[fits(InlinedScalars(plan.wired).trip(found.loop), found.depth)] = None
    conditions: Sequence[Expr] = list(made)
    return reduce(lambda one, other: Apply("or", (one, other), "i1"), conditions) if conditions else None


def of_place(plan: LoweringPlan, by_place: Iterable[Ring], place: Place, ring: Ring) -> TileReuse | None:
    """What a ring is filled with, if it may stay."""
    task = plan.tasks[place]
    return tile_reuse(plan, by_place, task, ring) if task.node.kind == "load" else None
