"""Statements of the tile scheduler: how a warp group comes by its next program instance.

All but `Given` and the last five do arithmetic with unsigned numbers (u32, modulo 2^32). What CTAs do in common is in
the blocks `setup` and `once` of a program, what a warp group does in front of each instance in its block `next`
(`twill.codegen.warp.program`).
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.resources import SlotRef
from twill.codegen.warp.statements import Stmt

INSTANCE, PLACE = "instance", "place"  # scalars: of the loop over instances; what a warp group fetched last
RECALLED = ("walk.x", "walk.y", "walk.z", "walk.w")  # scalars that Recall defines
PRESENT, NEIGHBOUR = "present", "neighbour"  # of the CTA's instance and the other one's in a cluster
RANK = "cta"  # the number of a CTA in its cluster: a scalar of `setup`
MARKS = 256  # of a sum: 1 KiB of shared memory, for as many lines of a launch grid as most launches have
RECEIVED = ("told.x", "told.y", "told.z", "told.w")  # scalars that PublishInstance and ReceiveInstance define


@dataclass(frozen=True)
class InstanceLoop:
    """Of a static order: a warp group works on instance `first`, first + step, ... below `end`, which `next` calls
    `instance`. (In a dynamic order there is none: `next` fetches until a StopUnless.)"""

    first: Expr
    end: Expr
    step: Expr


@dataclass(frozen=True)
class SchedulingStmt(Stmt):
    """A statement without effect on memory, registers or barriers. Its note is printed behind it."""


@dataclass(frozen=True)
class Define(SchedulingStmt):
    """Define scalars, one after the other: those of `next` for the body, those of `setup` for the whole program."""

    names: tuple[str, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Given(SchedulingStmt):
    """Define a scalar of the whole program that is made of arguments and of sizes of the launch grid alone (with signed
    numbers, as `Let`): the launch computes it, once for all CTAs, and passes it."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Evenly(SchedulingStmt):
    """Define the width of groups of `count` things, none wider than `most`, that are about as wide as one another
    (`evenly`)."""

    name: str
    count: Expr
    most: Expr


@dataclass(frozen=True)
class Keep(SchedulingStmt):
    """Four numbers that all instances have in common, into shared memory: divisions cost hundreds of cycles between two
    instances, and registers that held the results would be missing in between."""

    values: tuple[Expr, Expr, Expr, Expr]


@dataclass(frozen=True)
class Recall(SchedulingStmt):
    """Define what was kept as `walk.x`, `walk.y`, `walk.z` and `walk.w`."""


@dataclass(frozen=True)
class SumOver(SchedulingStmt):
    """Define the scalar `name` (u32): the sum of `value`, an i32 that is not negative, over `index` (an i32) = 0 ...
    extent - 1, times `each`. The lanes of a warp share the work. marks: the whole CTA does, and leaves the
    sums in front of `MARKS` indices, as many from one to the next, for `Seek`. names, values: scalars that the value is
    made of, one after the other."""

    name: str
    index: str
    extent: Expr
    each: Expr
    value: Expr
    marks: bool = False
    names: tuple[str, ...] = ()
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Seek(SchedulingStmt):
    """Define `index` (i32), `before` (u32) and `here` (i32): the index at which the sum of `SumOver` first exceeds
    `place` (the last one if it does nowhere), the sum before it, and its value. It begins at the last mark of that sum
    that is not behind the place, unless it is where it was for the instance before this one."""

    index: str
    before: str
    here: str
    place: Expr
    extent: Expr
    each: Expr
    value: Expr
    names: tuple[str, ...] = ()
    values: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class SetProgramId(SchedulingStmt):
    """The grid index of the instance along an axis."""

    axis: int
    value: Expr


@dataclass(frozen=True)
class StopUnless(SchedulingStmt):
    """The warp group has had its last instance unless the condition (not 0) holds."""

    condition: Expr


@dataclass(frozen=True)
class FetchInstance(Stmt):
    """Take the next place in the order of program instances: asynchronous, one atomic operation on a counter in global
    memory. What reads `place` waits for it; at first `place` is the CTA's own number. The CTA that finds no place left
    (`instances` or more) fetches no more.

    cancel: a launch has a CTA for each place instead, and this one takes over the place of one that has not started,
    which the hardware then does not start; any of them, or none is left."""

    cancel: bool = False


@dataclass(frozen=True)
class PublishInstance(Stmt):
    """`body`, then the grid indices `index` of an instance, and whether it exists, written to `target` for the other
    warp groups; for this one they are `told.x`, `told.y`, `told.z` and `told.w`."""

    target: SlotRef
    index: tuple[Expr, Expr, Expr]
    exists: Expr
    body: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class ReceiveInstance(Stmt):
    """Define what `source` says as `told.x`, `told.y`, `told.z` and `told.w`. Waiting (Get) comes before."""

    source: SlotRef


@dataclass(frozen=True)
class ScalarLoop(Stmt):
    """A loop over scalars: `names` begin as `inits`, and where `condition` holds, `body` is run and they become
    `yields`, all at once; and again. They stay defined behind it, with the values that the condition refused."""

    names: tuple[str, ...]
    inits: tuple[Expr, ...]
    condition: Expr
    yields: tuple[Expr, ...]
    body: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class Visit(Stmt):
    """Where a program walks (`WarpProgram.walk`): the work of an instance, that is the body of the warp group."""


def evenly(count: int, most: int) -> int:
    """The width of groups that are about as wide as one another, none wider than `most`: a narrow last group would
    begin with long instances when most CTAs are nearly done. They get narrower until the last one has half their
    width."""
    groups = -(-count // max(1, most))
    width = max(1, -(-count // max(1, groups)))
    while 2 * ((count - 1) % width + 1) < width:
        width -= 1
    return width
