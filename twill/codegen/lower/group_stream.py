"""Third step of lowering: the stream of a warp group, loop by loop.

stream(placement, group) -> GroupStream
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twill import exc
from twill.codegen.lower.groups import Group
from twill.codegen.lower.loop_stream import LoopStream, loop_stream
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.ring_uses import most_positions
from twill.codegen.lower.stream import Made
from twill.codegen.lower.values import Overwritten, Values, shared_values


@dataclass(frozen=True)
class GroupStream:
    """What a warp group does in which order. group: whose registers and number it has; tasks_of: whose tasks it does
    (its own, or those of the group that it is like). loops: by region. most: positions in each ring, by what it is used
    for. What stands between loops has the order of the program."""

    group: Group
    tasks_of: int
    values: Values
    loops: Mapping[int, LoopStream] = field(default_factory=dict)
    most: Mapping[tuple[int, str], int] = field(default_factory=dict)


def stream(placement: Placement, group: Group) -> GroupStream:
    """The stream of a warp group of a placement; MMAs whose results would be overwritten too early get registers of
    their own. Raises UnsupportedBySchedule."""
    plan, tasks_of = placement.plan, group.like if group.like >= 0 else group.id
    apart: frozenset[Made] = frozenset()
    while True:
        values = shared_values(plan, tasks_of, apart)
        loops = _loops(placement, tasks_of, values)
        if not isinstance(loops, Overwritten):
            most = most_positions([(loop.stream, loop.reads) for loop in loops.values()])
            return GroupStream(group, tasks_of, values, loops, most)
        multiplies = _multiplies(plan, tasks_of, values, loops.made) - apart
        if not multiplies:
            op = plan.flat.steps[loops.made[0]].op
            what = f"`{op.name}`" if op.name else f"the result of this {op.kind}"
            raise exc.UnsupportedBySchedule(
                f"{what} is read after it was overwritten in place", file=plan.wired.program.file, line=op.line
            )
        apart |= multiplies


def _multiplies(plan: LoweringPlan, group: int, values: Values, made: Made) -> frozenset[Made]:
    """MMAs that must not accumulate in place, so that a value is kept for its readers: itself if it is one, else those
    that share its variable (`acc = dot(a, b, acc) if ... else acc` reads what the MMA adds to behind the MMA)."""
    tasks = [task for task in plan.tasks.values() if task.node.kind == "mma" and group in task.groups]
    every = {task.made for task in tasks}
    return frozenset({made} & every or {one for one in every if values.find(one) == values.find(made)})


def _loops(placement: Placement, group: int, values: Values) -> dict[int, LoopStream] | Overwritten:
    found: dict[int, LoopStream] = {}
    for region in placement.plan.wired.graph.regions:
        loop = loop_stream(placement, group, values, region.id) if region.kind == "loop" else None
        if isinstance(loop, Overwritten):
            return loop
        if loop is not None:
            found[region.id] = loop
    return found
