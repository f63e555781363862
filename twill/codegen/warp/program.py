"""The warp program: one instruction stream for each warp group, talking only through arefs and barriers.

Grammar::

    WarpProgram ::= TensorMap* Buffer* Aref* NamedBarrier* WarpGroup* raster group LongestFirst? told Cluster? runs?
    WarpGroup   ::= role threads registers Fragment* Cursor* start next body skip finish share
    next        ::= Stmt*            (where instances are fetched: run in front of each to learn which it is)
    body        ::= Stmt*            (run for each program instance of a persistent CTA, cursors live on)
    skip        ::= Stmt*            (run instead for instances that another group of the same share has)
    start, finish ::= Stmt*          (run once, before the first and after the last instance)
    Pipeline    ::= trip stages prologue steady epilogue        (each a list of Stmt)
                    (the text of every line: `twill.codegen.warp.forms`; what must hold: `twill.codegen.warp.verifier`)

    Stmt ::= Let | Alike | If | Pipeline                                      control
           | Acquire | Expect | TmaLoad | Publish | Get | Consumed            arefs
           | Advance | Skip                                                   cursors
           | Claim | Tell | Learn                                             which program instance is next
           | Fence | Multiply | Commit | WaitGroups                           wgmma
           | Fill | Range | Compute | Reduce | Copy                           registers
           | LoadShared | StoreShared | LoadGlobal | StoreGlobal              memory, by all threads
           | ProxyFence | Sync | Arrive                                       order
           | TmaStore | BulkCommit | BulkWait                                 stores by the TMA

An aref is a ring of `depth` slots with two mbarriers a slot, full and empty, one producer warp
group and one or more consumer groups. A cursor is a warp group's position in a ring: a count n of slots passed,
which starts at 0 with the kernel and lives across program instances; it means slot n mod depth, and parity
(n div depth) mod 2 of its barriers. `Acquire` waits until the slot is empty (parity ^ 1: a fresh slot is free),
`Get` until it is full, `Consumed` gives it back, `Advance` moves a cursor on by one. A warp group may have
several cursors in one ring, one for each use at another stage.

The whole warp group executes every statement, in order. Where the hardware wants one thread (TMA, expect_tx,
bulk stores), the printer elects the same one everywhere. A group with `issuer` executes its whole
stream in one elected thread: it holds no fragments.

Fragments are mutable variables of a warp group; a statement overwrites its result. `wgmma` is asynchronous: from
Multiply until a WaitGroups that covers its group, its accumulator and its A fragment must not be touched and its
shared operands not be given back. Commit always makes a group, an empty one if no Multiply came since the last:
so a pipeline's prologue and epilogue, where some Multiply is left out, keep the counts of the steady state.

A group with a `share` (i, n) has every n-th of its CTA's program instances, from the i-th on, and n such groups take
instances alternately. A slot of a ring that they consume is consumed by the one that has the instance; the others move
their cursors past it (`Skip`). `INSTANCES` is a Local that counts: in `body` and `skip` the instances of the CTA
before this one, in `finish` all of them.

With a `Cluster`, two CTAs on neighbouring SMs work on program instances that are neighbours along one axis of the
launch grid, and go through the pairs of such instances together. A `shared` aref has a slot in each of them, which both
fill: a TmaLoad with a `sender` is issued by that CTA alone and writes the slots of both, Expect announces all bytes
that land in the CTA's own slot whoever sends them, and a Consumed `everywhere` gives the slot back to both producers.
`PRESENT` is a Local: whether the CTA's instance exists, or repeats that of the other CTA because the grid ends with
half a pair: such an instance does everything but store. `NEIGHBOUR` is a Local: the grid index of the other CTA's
instance along the axis.

Program instances are independent of one another. In a static order CTA t of G has instances t, t + G, ... of the launch
grid, in the order that `raster group` and the LongestFirst say (`twill.codegen.verify.grid_walk`); in launches for
which `runs` holds,
each CTA has a run of neighbours in that order, all as long as one another but for one instance. In a dynamic one
(`scheduler_ring` is a ring) it begins with instance t of that order, and then takes the first that nobody has taken:
one group, the producer of the ring, claims it when it has issued its part of the one before, and tells the others
through the ring. Every group comes by each instance of its CTA, and by the message that there is none left, which ends
it.

Nothing here knows a kernel; everything was decided by the lowering (`twill.codegen.lower.lower`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.resources import (
    Aref,
    Buffer,
    Cursor,
    Fragment,
    NamedBarrier,
    Operand,
    Reg,
    SlotRef,
    TensorMapSpec,
    Window,
    WindowAxis,
)
from twill.codegen.warp.statements import (
    DIGITS,
    FACTOR,
    INSTANCES,
    NEIGHBOUR,
    NORMAL,
    PRESENT,
    SUBNORMAL,
    WARP_VOTE,
    Acquire,
    Advance,
    Arrive,
    Attributes,
    BulkCommit,
    BulkWait,
    Commit,
    Compute,
    Consumed,
    Copy,
    CountReuse,
    Expect,
    Fence,
    FetchInstance,
    Fill,
    Get,
    If,
    Let,
    LoadGlobal,
    LoadShared,
    Multiply,
    Pipeline,
    ProxyFence,
    Publish,
    PublishInstance,
    Range,
    ReceiveInstance,
    Reduce,
    Skip,
    Stmt,
    StoreGlobal,
    StoreShared,
    Sync,
    TmaLoad,
    TmaStore,
    WaitGroups,
)
from twill.tile.program import TileProgram

__all__ = [
    "Acquire", "Advance", "CountReuse", "Aref", "Arrive", "Attributes", "Buffer", "BulkCommit", "BulkWait",
    "FetchInstance",
    "Cluster", "Commit", "Compute", "Consumed", "Copy", "Cursor", "DIGITS", "Expect", "FACTOR", "Fence", "Fill",
    "Fragment", "Get", "INSTANCES", "If", "ReceiveInstance", "Let", "LoadGlobal", "LoadShared", "LongestFirst",
    "Multiply",
    "NEIGHBOUR", "NORMAL", "NamedBarrier", "ORDER_BYTES", "Operand", "PRESENT", "Pipeline", "ProxyFence", "Publish",
    "Range", "Reduce", "Reg", "SUBNORMAL", "Skip", "SlotRef", "Stmt", "StoreGlobal", "StoreShared", "Sync",
    "INSTANCE_RING",
    "PublishInstance", "TensorMapSpec", "TmaLoad", "TmaStore", "WARP_VOTE", "WaitGroups", "WarpGroup", "WarpProgram",
    "Window",
    "WindowAxis", "walk", "with_blocks",
]  # fmt: skip


@dataclass(frozen=True)
class WarpGroup:
    """One warp group. registers: per thread, by setmaxnreg (0: as compiled). share: (i, n), as said above."""

    id: int
    role: str
    threads: int
    registers: int
    issuer: bool
    fragments: tuple[Fragment, ...]
    cursors: tuple[Cursor, ...]
    body: tuple[Stmt, ...]
    finish: tuple[Stmt, ...] = ()
    start: tuple[Stmt, ...] = ()
    skip: tuple[Stmt, ...] = ()
    next: tuple[Stmt, ...] = ()
    share: tuple[int, int] = (0, 1)

    @property
    def stmts(self) -> Iterator[Stmt]:
        """Every statement, nested ones included."""
        for block in (self.start, self.next, self.body, self.skip, self.finish):
            yield from walk(block)

    def fragment(self, number: int) -> Fragment:
        """The fragment of that id; KeyError if there is none."""
        for fragment in self.fragments:
            if fragment.id == number:
                return fragment
        raise KeyError(number)

    def cursor(self, number: int) -> Cursor:
        """The cursor of that id; KeyError if there is none."""
        for cursor in self.cursors:
            if cursor.id == number:
                return cursor
        raise KeyError(number)


INSTANCE_RING = "instance"  # the transport of a ring through which program instances are told
ORDER_BYTES = 16  # of shared memory, for what all instances of an order have in common


@dataclass(frozen=True)
class LongestFirst:
    """An order of program instances (`twill.codegen.lower.longest_first`). axis: of the launch grid, along which they
    grow
    or fall; as many along the other axes are walked together, no more than `most`, as read, `bytes` each, no more than
    `cached` bytes."""

    axis: int
    grows: bool
    bytes: Expr
    cached: int
    most: int


@dataclass(frozen=True)
class Cluster:
    """CTAs that share tiles. axis: of the launch grid, along which their program instances are neighbours. meets_first,
    meets_last: all threads of all CTAs wait for one another before any of them touches another CTA, and before any CTA
    ends."""

    axis: int
    ctas: int = 2
    meets_first: bool = True
    meets_last: bool = True


@dataclass(frozen=True)
class WarpProgram:
    """See the top of this file. Ids index their tuples: buffers[i].id == i, and so on for all of them;
    fragment and cursor ids are unique in the whole program. shared: bytes of dynamic shared memory with barriers.
    ctas: that share an SM. raster group: rows of the launch grid that are walked together (0: instances in its order).
    order: of program instances, in place of all that (None: there is none). scheduler_ring: the ring through which
    groups learn which instance is next (None: each CTA knows its own). cluster: None if every CTA is alone; with one
    along axis 0, a raster group is of rows of pairs, and there is neither an order nor told. runs: says nothing of
    instances; no order, told or cluster besides it (None: never)."""

    program: TileProgram
    machine: str
    maps: tuple[TensorMapSpec, ...]
    buffers: tuple[Buffer, ...]
    arefs: tuple[Aref, ...]
    barriers: tuple[NamedBarrier, ...]
    groups: tuple[WarpGroup, ...]
    shared: int
    ctas: int = 1
    raster_group: int = 0
    order: LongestFirst | None = None
    scheduler_ring: int | None = None
    cluster: Cluster | None = None
    runs: Expr | None = None


def with_blocks(stmt: Stmt, made: Callable[[tuple[Stmt, ...]], Iterable[Stmt]]) -> Stmt:
    """The statement with each of its own blocks made anew; as it is if it has none."""
    match stmt:
        case If():
            return replace(stmt, body=tuple(made(stmt.body)), otherwise=tuple(made(stmt.otherwise)))
        case Pipeline():
            return replace(
                stmt,
                prologue=tuple(tuple(made(block)) for block in stmt.prologue),
                steady=tuple(made(stmt.steady)),
                later=tuple(made(stmt.later)),
                epilogue=tuple(tuple(made(block)) for block in stmt.epilogue),
            )
    return stmt


def walk(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a block, nested ones included, in order."""
    for stmt in stmts:
        yield stmt
        if isinstance(stmt, If):
            yield from walk(stmt.body)
            yield from walk(stmt.otherwise)
        elif isinstance(stmt, Pipeline):
            for block in (*stmt.prologue, *stmt.steadies, *stmt.epilogue):
                yield from walk(block)
