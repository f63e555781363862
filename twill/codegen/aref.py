"""The warp program: one instruction stream for each warp group, talking only through arefs and barriers.

Grammar::

    WarpProgram ::= TensorMap* Buffer* Aref* NamedBarrier* WarpGroup* band LongestFirst?
    WarpGroup   ::= role threads registers Fragment* Cursor* start body skip finish share
    body        ::= Stmt*            (run for each program instance of a persistent CTA, cursors live on)
    skip        ::= Stmt*            (run instead for instances that another group of the same share has)
    start, finish ::= Stmt*          (run once, before the first and after the last instance)
    Pipeline    ::= trip stages prologue steady epilogue        (each a list of Stmt)

    Stmt ::= Let | If | Pipeline                                              control
           | Acquire | Expect | TmaLoad | Publish | Get | Consumed            arefs
           | Advance | Skip                                                   cursors
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
instances in turn. A slot of a ring that they consume is consumed by the one that has the instance; the others move
their cursors past it (`Skip`). `INSTANCES` is a Local that counts: in `body` and `skip` the instances of the CTA
before this one, in `finish` all of them.

Program instances are independent of one another. A CTA of G has instances t, t + G, ... of the launch grid, in the
order that `band` says (`twill.codegen.grid_walk`).

Nothing here knows a kernel; everything was decided by the lowering (`twill.codegen.lower`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from twill.codegen.expression import Expr, PerGroup
from twill.codegen.layout import Layout
from twill.graph.program import TileProgram

INSTANCES = "instances_before"
NORMAL = "normal"  # an attribute of a division: the divisor is positive and no subnormal number

Attributes = tuple[tuple[str, int | float | str | tuple[int, ...]], ...]


# ---------------------------------------------------------------- shared memory
@dataclass(frozen=True)
class Buffer:
    """A ring of `slots` tiles in shared memory; slots are `bytes` apart, at `offset` from the start.

    A tile of shape (rows, columns) and rank 2 lies in panels: panel p holds columns [p·w, (p + 1)·w), w·size =
    `panel` bytes, as rows of `panel` bytes one after the other, panels rows·`panel` bytes apart. Within a row,
    16-byte chunks are exchanged by the swizzle of `swizzle` bytes (128: chunk ^ (row & 7); 64: chunk ^ ((row >> 1)
    & 3); 32: chunk ^ ((row >> 2) & 1); 0: none). A tile of rank 1 is contiguous, without a swizzle.
    """

    id: int
    name: str
    shape: tuple[int, ...]
    element: str
    swizzle: int
    panel: int
    slots: int
    bytes: int
    offset: int


@dataclass(frozen=True)
class Aref:
    """A ring. buffers: the buffers that share this pair of barriers (a tuple aref), all of `depth` slots.

    transport: how it is filled: "tma" (full completes by one arrive.expect_tx and the bytes of its loads),
    "registers" (each warp of the producer arrives after its stores). full_count, empty_count: arrivals that complete
    a phase of the full and the empty barrier. Every warp of a consumer group arrives once at Consumed.
    """

    id: int
    name: str
    buffers: tuple[int, ...]
    depth: int
    producer: int
    consumers: tuple[int, ...]
    transport: str
    bytes: int
    full_count: int
    empty_count: int


@dataclass(frozen=True)
class NamedBarrier:
    """A hardware barrier (its number is id + 1, at most 15): every one of `groups` syncs or arrives;
    threads = 128 for each."""

    id: int
    name: str
    groups: tuple[int, ...]
    threads: int


@dataclass(frozen=True)
class SlotRef:
    """One slot of a buffer: the one at `cursor` (a cursor id), or slot 0 if None; or a part of it.

    rows, columns: the half-open range of the tile's rows and columns that is meant (None: all of them).
    """

    buffer: int
    cursor: int | None = None
    rows: tuple[int, int] | None = None
    columns: tuple[int, int] | None = None


# ---------------------------------------------------------------- global memory
@dataclass(frozen=True)
class TensorMap:
    """A tensor map that the launcher makes from the arguments. Axes outermost first, as in the tile.

    sizes: elements along each axis, None where the kernel states no bound. strides: in elements, the last is 1.
    offset: of element (0, ..., 0) from the argument's address, in elements. box: elements moved by one copy.
    All expressions are over scalar arguments only.
    """

    id: int
    argument: str
    element: str
    sizes: tuple[Expr | None, ...]
    strides: tuple[Expr, ...]
    offset: Expr
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True)
class WindowAxis:
    """As `twill.graph.program.Axis`, with expressions: element offset + i, i in [0, extent), masked outside
    [lower, upper) of offset + i."""

    extent: int
    stride: Expr
    offset: Expr
    lower: Expr | None = None
    upper: Expr | None = None


@dataclass(frozen=True)
class Window:
    """A tile of global memory, element by element: argument + constant + Σ stride·(offset + i)."""

    argument: str
    element: str
    axes: tuple[WindowAxis, ...]
    constant: Expr
    pad: float


# ---------------------------------------------------------------- warp groups
@dataclass(frozen=True)
class Fragment:
    """A tile in the registers of one warp group. element: as in TileType; i1 is a predicate."""

    id: int
    name: str
    element: str
    layout: Layout


@dataclass(frozen=True)
class Cursor:
    """A position in the ring of `aref`; see the top of this file."""

    id: int
    name: str
    aref: int


@dataclass(frozen=True)
class Reg:
    """A fragment as an operand, spread along the axes that it lacks.

    axes: for each axis of the result, the axis of the fragment, or -1 along which it repeats. (): as it is,
    or a Uniform.
    """

    fragment: int
    axes: tuple[int, ...] = ()


Operand = Reg | Expr


@dataclass(frozen=True)
class Stmt:
    """A statement. line: of the kernel, 0 if of none. note: for people, printed as a comment."""

    line: int = field(default=0, kw_only=True)
    note: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Let(Stmt):
    """Define the scalar `name` for the rest of the block."""

    name: str
    value: Expr


@dataclass(frozen=True)
class If(Stmt):
    """Run `body` if the condition holds (the same in all threads)."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Pipeline(Stmt):
    """A software-pipelined loop of `trip` iterations (an i32 expression; nothing runs if trip <= 0).

    With k = the counter `step` (a Local): for k = 0 ... stages - 1 run prologue[k]; for k = stages ... trip - 1 run
    steady; with k = max(trip, stages) + j, j = 0 ... stages - 1, run epilogue[j]. An operation of stage s works at
    step k on iteration k - s; guards (If) in prologue and epilogue keep it inside [0, trip).
    """

    name: str
    step: str
    trip: Expr
    stages: int
    prologue: tuple[tuple[Stmt, ...], ...]
    steady: tuple[Stmt, ...]
    epilogue: tuple[tuple[Stmt, ...], ...]
    interval: int = 0  # I of the schedule, for people


@dataclass(frozen=True)
class Acquire(Stmt):
    """The producer waits until the slot at the cursor is empty."""

    cursor: int


@dataclass(frozen=True)
class Expect(Stmt):
    """Arrive on the slot's full barrier, which then also waits for `bytes` of TMA data."""

    cursor: int
    bytes: int


@dataclass(frozen=True)
class TmaLoad(Stmt):
    """One box, global -> `target`, counted on the full barrier of the slot at `cursor`.

    coordinates: of the box's first element, outermost first (elements; may lie out of bounds: zeros).
    `target.columns` and `target.rows` are the part of the tile that the box fills.
    """

    map: int
    coordinates: tuple[Expr, ...]
    target: SlotRef
    cursor: int


@dataclass(frozen=True)
class Publish(Stmt):
    """Every warp of the producer arrives on the slot's full barrier (transport "registers")."""

    cursor: int


@dataclass(frozen=True)
class Get(Stmt):
    """A consumer waits until the slot at the cursor is full."""

    cursor: int


@dataclass(frozen=True)
class Consumed(Stmt):
    """Every warp of the consumer arrives on the slot's empty barrier: the group will not read it again."""

    cursor: int


@dataclass(frozen=True)
class Advance(Stmt):
    """Move a cursor on to the next slot."""

    cursor: int


@dataclass(frozen=True)
class Skip(Stmt):
    """Move a cursor on by `count` slots (an i32 expression; none if it is negative), which another group consumes."""

    cursor: int
    count: Expr


@dataclass(frozen=True)
class Fence(Stmt):
    """wgmma.fence: earlier register writes of `fragments` are visible to the next Multiply."""

    fragments: tuple[int, ...]


@dataclass(frozen=True)
class Multiply(Stmt):
    """accumulator[rows, n] (+)= A[rows, k] B[k, n], asynchronous; rows, n of the accumulator's layout.

    a: a fragment of 16-bit elements (layout Accumulator(rows, k)), or a slot. a_transposed: the slot's tile is
    [k, rows]. b: a slot whose tile is [k, n], or [n, k] if b_transposed. accumulate: False overwrites the accumulator.
    operand: element type of A and B.
    """

    accumulator: int
    a: int | SlotRef
    b: SlotRef
    a_transposed: bool
    b_transposed: bool
    depth: int  # k
    operand: str
    accumulate: bool


@dataclass(frozen=True)
class Commit(Stmt):
    """The multiplies since the last Commit become one wgmma group (maybe an empty one)."""


@dataclass(frozen=True)
class WaitGroups(Stmt):
    """Wait until at most `pending` of the committed wgmma groups are unfinished; `ready`: fragments that are
    complete, or free to be overwritten, by it."""

    pending: int
    ready: tuple[int, ...]


@dataclass(frozen=True)
class Fill(Stmt):
    """Every element becomes `value`."""

    result: int
    value: Expr


@dataclass(frozen=True)
class Range(Stmt):
    """result[i] = start + i; the result is a vector of i32."""

    result: int
    start: int | PerGroup


@dataclass(frozen=True)
class Compute(Stmt):
    """result = kind(operands), element by element; kind and attributes as in `twill.graph.vocabulary`."""

    kind: str
    operands: tuple[Operand, ...]
    result: int
    attributes: Attributes = ()


@dataclass(frozen=True)
class Reduce(Stmt):
    """Reduce along `axis`. Accumulator axis 1 -> rows, axis 0 -> columns; Blocked (all of it) -> Uniform.

    scratch: a buffer of f32 or i32 (at least 512 bytes times the registers of the result) if it crosses warps, with the
    group's own `barrier` (Sync inside).
    """

    operand: int
    result: int
    axis: int
    combine: str
    scratch: int | None = None
    barrier: int | None = None


@dataclass(frozen=True)
class Copy(Stmt):
    """result = source, of equal element type and layout."""

    source: int
    result: int


@dataclass(frozen=True)
class LoadShared(Stmt):
    """result = a slot's tile (or its transpose). Waiting (Get) comes before."""

    source: SlotRef
    result: int
    transposed: bool = False


@dataclass(frozen=True)
class StoreShared(Stmt):
    """A slot's tile (or its transpose) = operand. columns: of the operand, that go to the whole of `target`."""

    operand: int
    target: SlotRef
    transposed: bool = False
    columns: tuple[int, int] | None = None


@dataclass(frozen=True)
class LoadGlobal(Stmt):
    """result = the window (masked elements: pad; where `mask` is false: pad). transposed: the fragment is the
    transpose of the window's tile."""

    window: Window
    result: int
    mask: int | None = None
    transposed: bool = False


@dataclass(frozen=True)
class StoreGlobal(Stmt):
    """The window = operand, where unmasked. combine: "" stores; "add", "max", "min", ... reduce atomically."""

    window: Window
    operand: Operand
    mask: int | None = None
    combine: str = ""
    transposed: bool = False


@dataclass(frozen=True)
class ProxyFence(Stmt):
    """fence.proxy.async: this thread's writes of shared memory before later asynchronous reads."""


@dataclass(frozen=True)
class Sync(Stmt):
    """Wait on a named barrier."""

    barrier: int


@dataclass(frozen=True)
class Arrive(Stmt):
    """Arrive on a named barrier without waiting."""

    barrier: int


@dataclass(frozen=True)
class TmaStore(Stmt):
    """One box, `source` -> global; asynchronous, in the bulk group of the elected thread. combine: "", or of a
    reduction. passing: nobody reads it here, so it leaves the L2 cache first."""

    map: int
    coordinates: tuple[Expr, ...]
    source: SlotRef
    combine: str = ""
    passing: bool = False


@dataclass(frozen=True)
class BulkCommit(Stmt):
    """The elected thread's bulk stores since the last commit become one group."""


@dataclass(frozen=True)
class BulkWait(Stmt):
    """The elected thread waits until at most `pending` bulk groups are unfinished; read: until they have read
    shared memory only. Other threads learn of it by a Sync after it."""

    pending: int
    read: bool


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
    share: tuple[int, int] = (0, 1)

    @property
    def stmts(self) -> Iterator[Stmt]:
        """Every statement, nested ones included."""
        for block in (self.start, self.body, self.skip, self.finish):
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


@dataclass(frozen=True)
class LongestFirst:
    """An order of program instances (`twill.codegen.longest_first`). axis: of the launch grid, along which they grow
    or fall; as many along the other axes are walked together as read, `bytes` each, no more than `cached` bytes."""

    axis: int
    grows: bool
    bytes: Expr
    cached: int


@dataclass(frozen=True)
class WarpProgram:
    """See the top of this file. Ids index their tuples: buffers[i].id == i, and so on for all of them;
    fragment and cursor ids are unique in the whole program. shared: bytes of dynamic shared memory with barriers.
    ctas: that share an SM. band: rows of the launch grid that are walked together (0: instances in its order).
    order: of program instances, in place of all that (None: there is none)."""

    program: TileProgram
    machine: str
    maps: tuple[TensorMap, ...]
    buffers: tuple[Buffer, ...]
    arefs: tuple[Aref, ...]
    barriers: tuple[NamedBarrier, ...]
    groups: tuple[WarpGroup, ...]
    shared: int
    ctas: int = 1
    band: int = 0
    order: LongestFirst | None = None


def walk(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a block, nested ones included, in order."""
    for stmt in stmts:
        yield stmt
        if isinstance(stmt, If):
            yield from walk(stmt.body)
        elif isinstance(stmt, Pipeline):
            for block in (*stmt.prologue, stmt.steady, *stmt.epilogue):
                yield from walk(block)
