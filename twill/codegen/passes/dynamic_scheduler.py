"""A dynamic order of program instances: CTAs fetch them one by one instead of having every n-th.

Instances take unequal times: some have more iterations, and no two SMs run alike. With a static order the slowest CTA
ends last while the others rest. With a dynamic one a CTA takes the next instance when it is about to need one.

One load group claims, as soon as it has issued the loads of the instance before: while they are under way and the
tiles of the last iterations are worked on, nobody waits for the atomic operation. (Earlier is worse: what is claimed at
the beginning of a long instance waits until its end, whoever else could have begun with it.) What is claimed is told to
the other groups through a ring of two slots: the load group may be one instance ahead of all others, as it is with
tiles that a whole instance reads. The first instance of a CTA is its own number. Where the hardware lets a CTA take
over the place of one that has not started, there is no counter: a launch has a CTA for each instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.tile_scheduler import RANKED
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Apply, Local, Number

SLOTS = 2
WORDS = 4  # of a message: the place in the launch grid along three axes, and whether there is an instance


def with_tile_scheduler(
    groups: Sequence[ir.WarpGroup], memory: SharedMemoryPlan, cursors: Iterator[int], cancel: bool = False
) -> tuple[list[ir.WarpGroup], ir.Aref]:
    """The groups, of which the first that issues loads fetches instances and the others learn of them; the ring."""
    first = next(group for group in groups if group.issuer)
    others = [group for group in groups if group is not first]
    buffer = memory.buffer("instance", (WORDS,), "i32", SLOTS)
    empty = sum(arrivals(group) for group in others)
    ring = memory.aref(
        "instance", (buffer.id,), first.id, tuple(g.id for g in others), ir.INSTANCE_RING, (arrivals(first), empty)
    )
    fetch = ir.FetchInstance(cancel, note="the instance after this one")
    return [_fetching(group, next(cursors), ring, fetch if group is first else None) for group in groups], ring


def _fetching(group: ir.WarpGroup, number: int, ring: ir.Aref, fetch: ir.FetchInstance | None) -> ir.WarpGroup:
    """The group with how it comes by its next instance."""
    slot = ir.SlotRef(ring.buffers[0], number)
    index = {stmt.axis: stmt.value for stmt in group.next if isinstance(stmt, ir.SetProgramId)}
    place, count = Local(ir.PLACE, "u32"), Local("instances", "u32")
    exists = Apply("compare", (place, count), "i1", (("predicate", "lt"), ("signed", 0)))
    published = ir.PublishInstance(slot, (index[0], index[1], index[2]), exists, tuple(at_place(group.next)))
    how: tuple[ir.Stmt, ...] = (ir.Get(number), ir.ReceiveInstance(slot), ir.Consumed(number), ir.Advance(number))
    if fetch is not None:
        how = (ir.Acquire(number), published, ir.Publish(number), ir.Advance(number))
    x, y, z, there = (Local(name, "u32") for name in ir.RECEIVED)
    indices = (ir.SetProgramId(axis, index) for axis, index in enumerate((x, y, z)))
    return replace(
        group,
        cursors=(*group.cursors, ir.Cursor(number, f"instance_{'put' if fetch is not None else 'get'}", ring.id)),
        loop=None,
        next=(*how, ir.StopUnless(there), *indices),
        body=(*group.body, fetch) if fetch is not None else group.body,
    )


def at_place(static: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
    """What the statements of a static order compute of an instance, of the one at the place that was fetched; of the
    last one if there is none there. CTAs have no rounds: an order of its own is not walked backwards in between."""
    count = Local("instances", "u32")
    last = Apply("sub", (count, Number(1, "u32")), "u32")
    place = Apply("min", (Local(ir.PLACE, "u32"), last), "u32", (("signed", 0),))
    ranked = next((i for i, stmt in enumerate(static) if isinstance(stmt, ir.Define) and RANKED in stmt.names), None)
    if ranked is None:
        yield ir.Define((ir.INSTANCE,), (place,))
    for number, stmt in enumerate(static):
        if number == ranked:
            yield ir.Define((RANKED,), (place,))
        elif not isinstance(stmt, ir.SetProgramId) and (
            ranked is None or number > ranked or isinstance(stmt, ir.Recall)
        ):
            yield stmt


def arrivals(group: ir.WarpGroup) -> int:
    """Arrivals of a group on an mbarrier: one for each warp, or one of its only thread."""
    return 1 if group.issuer else group.threads // 32


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    if not choices.dynamic:
        return program
    memory = SharedMemoryPlan.of(program)
    cursors = count(1 + max((c.id for group in program.groups for c in group.cursors), default=-1))
    groups, _ = with_tile_scheduler(program.groups, memory, cursors, choices.cancel)
    buffers, arefs = tuple(memory.buffers), tuple(memory.arefs)
    return replace(program, groups=tuple(groups), buffers=buffers, arefs=arefs)
