"""Where a warp group of a loop waits for what another one has stored in it.

A loop may load what it stored, in an iteration before or in the same one (a tile that sums go on in, the state of a
recurrence). The schedule has the load behind the store, but cycles make nobody wait: loads are issued far ahead. So the
group that stores says through a ring, in which nothing is, that what it has stored in an iteration is there, also for
copies of the TMA; the other one waits in front of its access of `distance` iterations later. As many slots are filled
in front of the loop, and taken behind it: every iteration fills one and takes one, however many there are.

Accesses outside of loops are `twill.codegen.passes.group_order`'s, those of one group
`twill.codegen.passes.memory_order`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from twill import exc
from twill.codegen.lower.cursors import Cursors
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Place, Task
from twill.codegen.targets.base import LANES
from twill.codegen.warp.program import Acquire, Advance, Aref, BulkWait, Consumed, Get, ProxyFence, Publish, Stmt

WORDS = 4  # of a slot, in which nothing is: its barriers say all
STORES = ("store", "reduce_store")


Wait = tuple[Task, Task, int]
"""A store of a loop, an access behind it that may touch the same elements, of another warp group, and how many
iterations behind."""


@dataclass(frozen=True)
class StoreOrder:
    """Task `access` of an iteration comes behind task `store` of `distance` iterations before."""

    store: Place
    access: Place
    distance: int
    aref: Aref


def store_orders(plan: LoweringPlan, memory: SharedMemoryPlan, clusters: bool) -> tuple[StoreOrder, ...]:
    """Those of all loops, each with a ring. clusters: whether there are any. Raises UnsupportedInKernel where two CTAs
    would have to wait for one another."""
    found: list[StoreOrder] = []
    for store, access, distance in _needed(plan, list(_apart(plan))):
        if clusters:
            raise exc.UnsupportedInKernel(
                f"a loop accesses what line {store.node.line} stores to `{store.node.tensor}`, in a cluster of CTAs",
                file=plan.wired.program.file, line=access.node.line, hint="emit without `--cluster`",
            )  # fmt: skip
        ring = _ring(plan, memory, store, access, _slots(plan, store, access, distance))
        found.append(StoreOrder(store.place, access.place, distance, ring))
    return tuple(found)


def _apart(plan: LoweringPlan) -> Iterator[Wait]:
    """Of each loop."""
    for region in plan.wired.graph.regions:
        tasks: dict[int, list[Task]] = {}
        for task in plan.tasks.values():
            if task.region == region.id and region.kind == "loop":
                tasks.setdefault(task.place[1], []).append(task)
        for edge in region.edges if tasks else ():
            kinds = region.nodes[edge.src].kind, region.nodes[edge.dst].kind
            if edge.kind != "memory" or edge.src == edge.dst or kinds[0] not in STORES or kinds[1] != "load":
                continue
            for store in tasks.get(edge.src, ()):
                yield from (
                    (store, one, edge.distance) for one in tasks.get(edge.dst, ()) if one.groups != store.groups
                )


def _needed(plan: LoweringPlan, pairs: Sequence[Wait]) -> list[Wait]:
    """Without those that others make needless: a wait for the same or a later store, in front of the same or an earlier
    access, of the same groups."""

    def implies(one: Wait, other: Wait) -> bool:
        interval = plan.interval(one[0].region)
        later = one[0].start - one[2] * interval >= other[0].start - other[2] * interval
        alike = [(task.region, task.groups) for task in one[:2]] == [(task.region, task.groups) for task in other[:2]]
        return alike and later and one[1].start <= other[1].start

    return [
        other
        for number, other in enumerate(pairs)
        if not any(
            place != number and implies(one, other) and (place < number or not implies(other, one))
            for place, one in enumerate(pairs)
        )
    ]


def _slots(plan: LoweringPlan, store: Task, access: Task, distance: int) -> int:
    """So many that nobody waits for a slot, where all do what they do in the cycles of the schedule."""
    late = (access.start - store.start - store.latency) // plan.interval(store.region)
    return max(distance, distance + 1 + late) + 1


def _ring(plan: LoweringPlan, memory: SharedMemoryPlan, store: Task, access: Task, slots: int) -> Aref:
    """So many slots in which nothing is."""
    (producer,), (consumer,) = store.groups, access.groups
    name = f"order {store.node.tensor} {producer} {consumer}"
    buffer = memory.buffer(name, (WORDS,), "i32", slots)
    counts = tuple(
        1 if plan.groups[group].issuer else plan.groups[group].threads // LANES for group in (producer, consumer)
    )
    return memory.aref(name, (buffer.id,), producer, (consumer,), "registers", (counts[0], counts[1]))


class StoreOrders:
    """What one warp group does about them."""

    def __init__(self, orders: Sequence[StoreOrder], cursors: Cursors, group: int) -> None:
        self.orders, self.cursors, self.group = orders, cursors, group

    def begin(self, region: int) -> list[Stmt]:
        """In front of a loop."""
        mine = (one for one in self.orders if one.store[0] == region and one.aref.producer == self.group)
        return [stmt for one in mine for _ in range(one.distance) for stmt in self._filled(one)]

    def wait(self, access: Place) -> list[Stmt]:
        """In front of a task."""
        return self._taken(one for one in self.orders if one.access == access)

    def stored(self, store: Task) -> list[Stmt]:
        """Behind a task: what it stores is there for everybody."""
        mine = [one for one in self.orders if one.store == store.place]
        there = [BulkWait(0, read=False, line=store.node.line), ProxyFence(memory=True, line=store.node.line)]
        return [*(there if mine else []), *(stmt for one in mine for stmt in self._filled(one))]

    def end(self, region: int) -> list[Stmt]:
        """Behind a loop."""
        mine = (one for one in self.orders if one.access[0] == region and self.group in one.aref.consumers)
        return self._taken(one for one in mine for _ in range(one.distance))

    def _filled(self, order: StoreOrder) -> list[Stmt]:
        put = self.cursors.of(order.aref, "put")
        return [Acquire(put), Publish(put), Advance(put)]

    def _taken(self, orders: Iterable[StoreOrder]) -> list[Stmt]:
        gets = (self.cursors.of(one.aref, "get") for one in orders)
        return [stmt for get in gets for stmt in (Get(get), Consumed(get), Advance(get))]
