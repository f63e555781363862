"""Where a warp group of a loop waits for a tile that another one loads, before it stores to the same elements.

A loop may store where it has loaded (the prefix of a sum takes the place of what is summed). Mostly what is stored is
made of what was loaded, and comes behind it by itself. Where it is not, the schedule has the store behind the load, but
cycles make nobody wait. So the group that stores waits for the tile's slot of the ring in front of its store, as a
reader that reads nothing; it becomes a consumer of the ring if it is none.

The other order, of a load behind a store, is `twill.codegen.lower.store_order`'s; both orders of accesses by one group
are `twill.codegen.passes.memory_order`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.store_order import STORES
from twill.codegen.lower.task import Place, Task
from twill.graph.dependence import Edge

AHEAD = 1  # cycles in front of the store


@dataclass(frozen=True)
class LoadOrder:
    """Task `load` of a loop, and a warp group that waits for what it brings, at cycle `time` of its iteration, before
    task `store` stores there."""

    load: Place
    store: Task
    time: int


def load_orders(plan: LoweringPlan) -> Mapping[Place, tuple[LoadOrder, ...]]:
    """Those of all loops, by the load: for each warp group the earliest."""
    found: dict[tuple[Place, int], LoadOrder] = {}
    for load, store, distance in _overwriting(plan):
        (group,) = store.groups
        order = LoadOrder(load.place, store, store.start + distance * plan.interval(load.region) - AHEAD)
        known = found.get((load.place, group))
        if not _is_made_of(plan, store, load.place, distance) and (known is None or order.time < known.time):
            found[load.place, group] = order
    made: dict[Place, tuple[LoadOrder, ...]] = {}
    for (place, group), order in sorted(found.items()):
        if not _has_read(plan, order, group):
            made[place] = (*made.get(place, ()), order)
    return made


def _overwriting(plan: LoweringPlan) -> Iterator[tuple[Task, Task, int]]:
    """A load, a store by another warp group that may overwrite what it reads, and how many iterations later."""
    for region in plan.wired.graph.regions:
        edges = [edge for edge in region.edges if edge.kind == "memory"] if region.kind == "loop" else []
        for edge in edges:
            if region.nodes[edge.src].kind != "load" or region.nodes[edge.dst].kind not in STORES:
                continue
            tasks = [task for task in plan.tasks.values() if task.region == region.id]
            loads, stores = ([task for task in tasks if task.node.id == node] for node in (edge.src, edge.dst))
            for load in loads:
                others = (one for one in stores if one.groups != load.groups)
                yield from ((load, one, edge.distance) for one in others if not _are_apart(plan, load, one, edge))


def _are_apart(plan: LoweringPlan, load: Task, store: Task, edge: Edge) -> bool:
    """Whether they are different row blocks of one and the same tile."""
    if edge.distance or -1 in (load.block, store.block) or load.block == store.block:
        return False
    ops = [plan.flat.steps[task.steps[-1]].op for task in (load, store)]
    first, second = (op.access for op in ops)
    return first is not None and second is not None and (first.axes, first.constant) == (second.axes, second.constant)


def _is_made_of(plan: LoweringPlan, store: Task, load: Place, distance: int) -> bool:
    """Whether what is stored is computed from the tile that was loaded so many iterations before, or later."""
    waiting, seen = [(store.place, 0)], set[tuple[Place, int]]()
    while waiting:
        place, behind = waiting.pop()
        if place == load:
            return True
        if (place, behind) in seen or place not in plan.tasks:
            continue
        seen.add((place, behind))
        task = plan.tasks[place]
        for source in (*plan.register_sources(task), *plan.slot_sources(task)):
            if behind + source.distance <= distance and plan.place_of(source)[0] == load[0]:
                waiting.append((plan.place_of(source), behind + source.distance))
    return False


def _has_read(plan: LoweringPlan, order: LoadOrder, group: int) -> bool:
    """Whether the group reads the tile before that by itself."""
    readers = [task for task in plan.readers(order.load) if task.groups == (group,) and task.region == order.load[0]]
    return any(task.start < order.time for task in readers)
