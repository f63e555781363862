"""The warp program: one instruction stream for each warp group, talking only through arefs and barriers.

Grammar::

    WarpProgram ::= TensorMap* Buffer* Aref* NamedBarrier* Cluster? setup once walk WarpGroup*
    setup       ::= Define* Given* AwaitEarlierGrids? (SumOver | Define)*    (scalars of the whole CTA, known to all
                                                  warp groups; a wait in front of those that are looked up)
    once        ::= (Define | Evenly)* Keep?     (run by one thread of the CTA, before all warp groups)
    walk        ::= (Let | ScalarLoop | Visit)*    (run by every warp group for each instance; at a Visit its body)
    WarpGroup   ::= role threads registers Fragment* Cursor* start InstanceLoop? next body skip finish share
    next        ::= Stmt*            (run in front of each program instance: says which it is, or that there is none)
    body        ::= Stmt*            (run for each program instance of a persistent CTA, cursors live on)
    skip        ::= Stmt*            (run instead for instances that another group of the same share has)
    start, finish ::= Stmt*          (run once, before the first and after the last instance)
    Pipeline    ::= trip stages prologue steady epilogue        (each a list of Stmt)
                    (the text of every line: `twill.codegen.warp.forms`; what must hold: `twill.codegen.warp.verifier`)

    Stmt ::= Let | Alike | If | Pipeline                                      control
           | Acquire | Expect | TmaLoad | Publish | Get | Consumed            arefs
           | MakeMap | ShowMaps | Settle                                      tensor maps of the CTA
           | Advance | Skip                                                   cursors
           | Define | Evenly | Recall | Seek | SetProgramId | StopUnless           which program instance is next
           | FetchInstance | PublishInstance | ReceiveInstance
           | Fence | Multiply | Commit | WaitGroups                           MMAs
           | TensorMultiply | LoadAccumulator | StoreAccumulator | CopyScales MMAs in tensor memory
           | StoreScales                                                    scales on their way there
           | Fill | Range | Compute | Reduce | Scan | Rearrange | Histogram | SumParts | Copy   registers
           | LoadShared | StoreShared | LoadGlobal | StoreGlobal              memory, by all threads
           | ProxyFence | Sync | Arrive | AwaitEarlierGrids                    order
           | Elect | Atomic | ReceiveElected                                  by one thread for all
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

Fragments are mutable variables of a warp group; a statement overwrites its result. An MMA is asynchronous: from
Multiply until a WaitGroups that covers its group, its accumulator and its A fragment must not be touched and its
shared operands not be given back. Commit always makes a group, an empty one if no Multiply came since the last:
so a pipeline's prologue and epilogue, where some Multiply is left out, keep the counts of the steady state.

Where the target has tensor memory, one thread of a group that only issues makes MMAs (TensorMultiply), whose results
stay there, in rings of transport "mma": an acquired slot is added to by the MMAs of a whole loop, and published by an
arrival that comes when they are over (`behind`); so are the slots of their operands given back. A consumer's threads
read the slot into registers (LoadAccumulator). MMAs of one thread are done in the order in which it issues them.
Where threads change an accumulator between the MMAs of a loop, the roles are exchanged: their group fills a ring of
transport "registers" with what it makes of the accumulator (StoreAccumulator), and the MMA works on the slot that it
consumes, which goes back when the MMA is over. An operand A that threads compute may be such a ring, too, and lie over
an accumulator that nobody needs any more. A ring of scales has a slot in tensor memory for each in shared memory, into
which the MMAs' thread copies them (CopyScales): it is free again when the MMAs are over, as the other one is.

A group with a `share` (i, n) has every n-th of its CTA's program instances, from the i-th on, and n such groups take
instances alternately. A slot of a ring that they consume is consumed by the one that has the instance; the others move
their cursors past it (`Skip`). `INSTANCES` is a Local that counts: in `body` and `skip` the instances of the CTA
before this one, in `finish` all of them.

With a `Cluster`, two CTAs on neighbouring SMs work on program instances that are neighbours along one axis of the
launch grid, and go through the pairs of such instances together. A `shared` aref has a slot in each of them, which both
fill: a TmaLoad with a `sender` is issued by that CTA alone and writes the slots of both, Expect announces all bytes
that land in the CTA's own slot whoever sends them, and a Consumed `everywhere` gives the slot back to both producers.
`PRESENT` and `NEIGHBOUR` are what `next` calls whether the CTA's instance exists, or repeats that of the other CTA
because the grid ends with half a pair (such an instance does everything but store), and the grid index of the other
CTA's instance along the axis.

Where the target has products of two CTAs, rings may be those of a `pair`. The first CTA then issues the products of
both: each has its own rows of A, half of B's columns and its own rows of the result, in slots of one number in both.
Tiles of both count on the full barrier of the first one, which alone expects them; a slot is given back to both. An
accumulator is published to both, and given back to the first one.

Program instances are independent of one another. Which of them a CTA works on, and in which order, is what the
statements of `setup`, `once` and `next` compute (`twill.codegen.lower.tile_scheduler`): `next` sets the grid indices
that a warp group asks for (SetProgramId). In a static order each warp group counts by itself (InstanceLoop). In a
dynamic one a CTA begins with the instance of its own number, and then takes the first that nobody has taken: one group
fetches its place in the order when it has issued its part of the one before (FetchInstance), and publishes the indices
to the others through a ring of transport `instance`; every group comes by each instance of its CTA, and by the message
that there is none left, which ends it (StopUnless).

Where a launch cannot know how often its programs do their work (`twill.tile.walks`), the instances of the launch grid
are programs that walk: for each of them every warp group runs the block `walk`, scalars and loops over scalars, and at
each `Visit` the body, to which the scalars of the walk are known. `INSTANCES` counts visits then.

Nothing here knows a kernel; everything was decided by the lowering (`twill.codegen.lower.lower`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from twill.codegen.warp.bulk_statements import BulkCommit, BulkWait, TmaStore
from twill.codegen.warp.elected_statements import Atomic, Elect, ReceiveElected
from twill.codegen.warp.exchange_statements import LAST_PART, Histogram, Rearrange, Reduce, Scan, SumParts
from twill.codegen.warp.expression import Expr
from twill.codegen.warp.layout import WARP_ROWS, Accumulator, Along
from twill.codegen.warp.map_statements import MakeMap, Settle, ShowMaps
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
    WindowIndex,
)
from twill.codegen.warp.scheduling import (
    INSTANCE,
    MARKS,
    NEIGHBOUR,
    PLACE,
    PRESENT,
    RANK,
    RECALLED,
    RECEIVED,
    Define,
    Evenly,
    FetchInstance,
    Given,
    InstanceLoop,
    Keep,
    PublishInstance,
    Recall,
    ReceiveInstance,
    ScalarLoop,
    SchedulingStmt,
    Seek,
    SetProgramId,
    StopUnless,
    SumOver,
    Visit,
)
from twill.codegen.warp.statements import (
    DIGITS,
    FACTOR,
    INSTANCES,
    NEVER,
    NORMAL,
    PAIRED,
    PAIRS,
    POLYNOMIAL,
    SUBNORMAL,
    WARP_VOTE,
    Acquire,
    Advance,
    Arrive,
    Attributes,
    AwaitEarlierGrids,
    Commit,
    Compute,
    Consumed,
    Copy,
    CountReuse,
    Expect,
    Fence,
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
    Range,
    Skip,
    Stmt,
    StoreGlobal,
    StoreShared,
    Sync,
    TmaLoad,
    WaitGroups,
)
from twill.codegen.warp.tensor_statements import (
    CopyScales,
    LoadAccumulator,
    StoreAccumulator,
    StoreScales,
    TensorMultiply,
)
from twill.tile.program import TileProgram

__all__ = [
    "ANSWER_BYTES", "Acquire", "Advance", "Aref", "Arrive", "Atomic", "Attributes", "AwaitEarlierGrids", "Buffer",
    "BulkCommit", "BulkWait", "Cluster", "Commit", "Compute", "Consumed", "Copy", "CopyScales", "CountReuse",
    "Cursor", "DIGITS", "Define", "Elect", "Evenly", "Expect", "FACTOR", "Fence", "FetchInstance", "Fill", "Given",
    "Fragment", "Get", "Histogram", "INSTANCE", "INSTANCES", "INSTANCE_RING", "If", "InstanceLoop", "Keep",
    "LAST_PART", "Let", "LoadAccumulator", "LoadGlobal", "LoadShared", "MakeMap", "Multiply", "NEIGHBOUR", "NEVER",
    "MARKS", "NORMAL", "NamedBarrier", "ORDER_BYTES", "Operand", "PAIRED", "PAIRS", "PLACE", "POLYNOMIAL", "PRESENT",
    "Pipeline", "ProxyFence", "Publish", "PublishInstance", "RANK", "RECALLED", "RECEIVED", "Range", "Rearrange",
    "Recall", "ReceiveElected", "ReceiveInstance", "Reduce", "Reg", "SUBNORMAL", "ScalarLoop", "Scan",
    "SchedulingStmt", "Seek", "SetProgramId", "Settle", "ShowMaps", "Skip", "SlotRef", "Stmt", "StopUnless",
    "StoreAccumulator", "StoreGlobal", "StoreScales", "StoreShared", "SumOver", "SumParts", "Sync", "TENSOR_BYTES",
    "TensorMapSpec", "TensorMultiply", "TmaLoad", "TmaStore", "Visit", "WARP_VOTE", "WaitGroups", "WarpGroup",
    "WarpProgram", "Window", "WindowAxis", "WindowIndex", "blocks_of", "blocks_within", "walk", "with_blocks",
]  # fmt: skip


@dataclass(frozen=True)
class WarpGroup:
    """One warp group. registers: the budget of a thread (0: as compiled). share: (i, n), as said above. loop:
    over the program instances of a static order; None where they are fetched."""

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
    loop: InstanceLoop | None = None

    @property
    def shares_of_rows(self) -> tuple[Accumulator, ...]:
        """A matrix for each number of neighbouring rows that a warp of the group has of one."""
        layouts = [fragment.layout for fragment in self.fragments]
        matrices = [made.parent if isinstance(made, Along) else made for made in layouts]
        found = {made.warp_rows: made for made in matrices if isinstance(made, Accumulator)}
        return tuple(found[rows] for rows in sorted(found)) or (Accumulator(4 * WARP_ROWS, 8),)

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
ORDER_BYTES = 16  # of shared memory, for what `once` keeps
ANSWER_BYTES = 32  # of shared memory, for the answer to a request to take a place over, and the barrier it comes on
TENSOR_BYTES = 16  # of shared memory, for the address of tensor memory
LEAST_TENSOR_COLUMNS, MOST_TENSOR_COLUMNS = 32, 512  # that can be allocated (PTX ISA, "tcgen05.alloc")


@dataclass(frozen=True)
class Cluster:
    """CTAs that share tiles. axis: of the launch grid, along which their program instances are neighbours. meets_first,
    meets_last: all threads of all CTAs wait for one another before any of them touches another CTA, and before any CTA
    ends. together: which neighbours can be the two instances of a pair (None: all); of others each has a turn of its
    own, in which both CTAs do the same and one of them stores."""

    axis: int
    ctas: int = 2
    meets_first: bool = True
    meets_last: bool = True
    together: Expr | None = None


@dataclass(frozen=True)
class WarpProgram:
    """See the top of this file. Ids index their tuples: buffers[i].id == i, and so on for all of them;
    fragment and cursor ids are unique in the whole program. shared: bytes of dynamic shared memory with barriers.
    ctas: that share an SM. cluster: None if every CTA is alone."""

    program: TileProgram
    machine: str
    maps: tuple[TensorMapSpec, ...]
    buffers: tuple[Buffer, ...]
    arefs: tuple[Aref, ...]
    barriers: tuple[NamedBarrier, ...]
    groups: tuple[WarpGroup, ...]
    shared: int
    ctas: int = 1
    cluster: Cluster | None = None
    setup: tuple[Stmt, ...] = ()
    once: tuple[Stmt, ...] = ()
    walk: tuple[Stmt, ...] = ()

    @cached_property
    def instance_ring(self) -> Aref | None:
        """The ring through which warp groups learn which instance is next; None in a static order."""
        return next((ring for ring in self.arefs if ring.transport == INSTANCE_RING), None)

    @cached_property
    def own_maps(self) -> tuple[tuple[int, int], ...]:
        """The tensor maps that a CTA has memory for: (warp group, map), each that a group makes."""
        made = ((group.id, stmt.map) for group in self.groups for stmt in group.stmts if isinstance(stmt, MakeMap))
        return tuple(sorted(dict.fromkeys(made)))

    @property
    def pairs(self) -> bool:
        """Whether two CTAs multiply together."""
        return any(ring.pair for ring in self.arefs)

    @property
    def tensor_columns(self) -> int:
        """Columns of tensor memory that a CTA needs: a power of two (PTX ISA, "tcgen05.alloc"); 0 for none."""
        end = max((b.offset + (b.slots - 1) * b.stride + b.width for b in self.buffers if b.tensor), default=0)
        return 1 << max(end - 1, LEAST_TENSOR_COLUMNS - 1).bit_length() if end else 0

    @property
    def tensor_taken(self) -> int:
        """Columns that a CTA allocates: all of them where it has its SM to itself, so that they begin at address 0 in
        every CTA, as a verifier has to know of the other CTA of a pair."""
        return MOST_TENSOR_COLUMNS if self.tensor_columns and self.ctas == 1 else self.tensor_columns

    @property
    def own_bytes(self) -> int:
        """Bytes of shared memory besides rings and their barriers."""
        answer = ANSWER_BYTES if self.cancels else 0
        return self.once_bytes + answer + (TENSOR_BYTES if self.tensor_columns else 0)

    @cached_property
    def cancels(self) -> bool:
        """Whether CTAs take over the places of others that have not started."""
        return any(isinstance(stmt, FetchInstance) and stmt.cancel for group in self.groups for stmt in group.stmts)

    @property
    def once_bytes(self) -> int:
        """Bytes of shared memory that `once` writes, and in which `setup` leaves marks behind it."""
        return (ORDER_BYTES if any(isinstance(stmt, Keep) for stmt in self.once) else 0) + self.marks_bytes

    @property
    def marks_bytes(self) -> int:
        """Bytes of shared memory for the marks of a sum."""
        marked = any(isinstance(stmt, SumOver) and stmt.marks for stmt in self.setup)
        return -(-4 * (MARKS + 1) // ORDER_BYTES) * ORDER_BYTES if marked else 0


def with_blocks(stmt: Stmt, made: Callable[[tuple[Stmt, ...]], Iterable[Stmt]]) -> Stmt:
    """The statement with each of its own blocks made anew; as it is if it has none."""
    match stmt:
        case PublishInstance() | Elect() | ScalarLoop():
            return replace(stmt, body=tuple(made(stmt.body)))
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


def blocks_of(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """A statement's own blocks, in order; () if it has none."""
    if isinstance(stmt, If):
        return stmt.body, stmt.otherwise
    if isinstance(stmt, PublishInstance | ScalarLoop | Elect):
        return (stmt.body,)
    return (*stmt.prologue, *stmt.steadies, *stmt.epilogue) if isinstance(stmt, Pipeline) else ()


def blocks_within(block: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """A block and all blocks within it."""
    yield block
    for inner in (inner for stmt in block for inner in blocks_of(stmt)):
        yield from blocks_within(inner)


def walk(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a block, nested ones included, in order."""
    for stmt in stmts:
        yield stmt
        for block in blocks_of(stmt):
            yield from walk(block)
