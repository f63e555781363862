"""A dynamic order of program instances: CTAs fetch them one by one instead of having every n-th.

Instances take unequal times: some have more iterations, and no two SMs run alike. With a static order the slowest CTA
ends last while the others rest. With a dynamic one a CTA takes the next instance when it is about to need one.

One load group claims, as soon as it has issued the loads of the instance before: while they are under way and the
tiles of the last iterations are worked on, nobody waits for the atomic operation. (Earlier is worse: what is claimed at
the beginning of a long instance waits until its end, whoever else could have begun with it.) What is claimed is told to
the other groups through a ring of two slots: the load group may be one instance ahead of all others, as it is with
tiles that a whole instance reads. The first instance of a CTA is its own number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import (
    INSTANCE_RING,
    Acquire,
    Advance,
    Aref,
    Consumed,
    Cursor,
    FetchInstance,
    Get,
    Publish,
    PublishInstance,
    ReceiveInstance,
    SlotRef,
    Stmt,
    WarpGroup,
    WarpProgram,
)

SLOTS = 2
WORDS = 4  # of a message: the place in the launch grid along three axes, and whether there is an instance


def with_tile_scheduler(
    groups: Sequence[WarpGroup], memory: SharedMemoryPlan, cursors: Iterator[int]
) -> tuple[list[WarpGroup], Aref]:
    """The groups, of which the first that issues loads fetches instances and the others learn of them; the ring."""
    first = next(group for group in groups if group.issuer)
    others = [group for group in groups if group is not first]
    buffer = memory.buffer("instance", (WORDS,), "i32", SLOTS)
    empty = sum(arrivals(group) for group in others)
    ring = memory.aref(
        "instance", (buffer.id,), first.id, tuple(g.id for g in others), INSTANCE_RING, (arrivals(first), empty)
    )
    return [_fetching(group, next(cursors), ring, group is first) for group in groups], ring


def _fetching(group: WarpGroup, number: int, ring: Aref, first: bool) -> WarpGroup:
    """The group with how it comes by its next instance."""
    slot = SlotRef(ring.buffers[0], number)
    publish: tuple[Stmt, ...] = (Acquire(number), PublishInstance(slot), Publish(number), Advance(number))
    learnt: tuple[Stmt, ...] = (Get(number), ReceiveInstance(slot), Consumed(number), Advance(number))
    return replace(
        group,
        cursors=(*group.cursors, Cursor(number, f"instance_{'put' if first else 'get'}", ring.id)),
        next=publish if first else learnt,
        body=(*group.body, FetchInstance(note="the instance after this one")) if first else group.body,
    )


def arrivals(group: WarpGroup) -> int:
    """Arrivals of a group on an mbarrier: one for each warp, or one of its only thread."""
    return 1 if group.issuer else group.threads // 32


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    if not choices.dynamic:
        return program
    memory = SharedMemoryPlan.of(program)
    cursors = count(1 + max((c.id for group in program.groups for c in group.cursors), default=-1))
    groups, ring = with_tile_scheduler(program.groups, memory, cursors)
    buffers, arefs = tuple(memory.buffers), tuple(memory.arefs)
    return replace(program, groups=tuple(groups), buffers=buffers, arefs=arefs, scheduler_ring=ring.id)
