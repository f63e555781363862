"""How long a schedule takes by its own account: cycles of the busiest SM for one launch.

A program instance takes, for each of its loops with n > 0 iterations, (n - 1)·I + L cycles, and for straight-line
code what its busiest unit needs; so does a group of fused instances. They are dealt out to persistent CTAs, one for
each SM, so a launch takes as long as the SM with the most of them. Waiting for memory, power and the order of tiles are
not in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from twill.codegen.emission import Extracted
from twill.codegen.verify.abstract.derive import shapes
from twill.codegen.verify.abstract.extent import trips_at
from twill.exc import TwillError
from twill.graph.cost import cost
from twill.kernel.problem import Case
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.tile.interpret.sequential import descriptor_scalars
from twill.tile.launch_grid import instance_case
from twill.zlp.bounds import lower_bounds

SAMPLES = 256  # program instances that are looked at, evenly spread over the grid


def predicted_cycles(kernel: Extracted, schedule: Schedule, machine: Machine, case: Case) -> float:
    """Cycles of one launch at these sizes."""
    case = instance_case(kernel.program, case)
    instances = math.prod(case.grid)
    if not instances:
        return 0.0
    scalars = {**case.scalars, **descriptor_scalars(kernel.program, shapes(kernel.program, case))}
    trips = trips_at(kernel.program, case.grid, scalars, sample(case.grid))
    loops = [region.id for region in kernel.graph.regions if region.kind == "loop"]
    each = straight_cycles(kernel, schedule, machine)
    total = sum(each + sum(_loop_cycles(schedule, loops, counts)) for counts in trips)
    waves = math.ceil(math.ceil(instances / schedule.cooperation.fuse) / machine.sms.value)
    return waves * total / len(trips)


def straight_cycles(kernel: Extracted, schedule: Schedule, machine: Machine) -> float:
    """Of the code outside loops: of a kernel without loops the interval at which instances begin, else what the
    busiest unit needs for each stretch."""
    scheduled = {loop.loop: loop for loop in schedule.loops}
    total = 0.0
    for region in kernel.graph.regions:
        if region.kind == "loop":
            continue
        if region.id in scheduled:
            total += scheduled[region.id].ii
            continue
        try:
            total += lower_bounds(cost(kernel.graph, region, machine, schedule.cooperation), machine).resource
        except TwillError:  # nothing in it that the machine prices
            continue
    return total


def sample(grid: Sequence[int]) -> list[tuple[int, int, int]]:
    """Indices spread over a grid, the middle of as many parts; all of them if they are few."""
    x, y, z = (*grid, 1, 1, 1)[:3]
    count = x * y * z
    picked = range(count) if count <= SAMPLES else ((2 * i + 1) * count // (2 * SAMPLES) for i in range(SAMPLES))
    return [(i % x, i // x % y, i // (x * y)) for i in picked]


def _loop_cycles(schedule: Schedule, loops: Sequence[int], counts: Sequence[int]) -> Iterator[float]:
    scheduled = {loop.loop: loop for loop in schedule.loops}
    for region, count in zip(loops, counts, strict=True):
        if count and region in scheduled:
            loop = scheduled[region]
            yield (count - 1) * loop.ii + loop.length
