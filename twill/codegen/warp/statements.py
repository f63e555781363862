"""The statements of a warp program.

The grammar and what they do together are in `twill.codegen.warp.program`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from twill.codegen.warp.expression import Expr, Number, PerGroup
from twill.codegen.warp.resources import Operand, SlotRef, Window

INSTANCES = "instances_before"
NORMAL = "normal"  # an attribute of a division: the divisor is positive and no subnormal number
SUBNORMAL = "subnormal"  # of an "exp" or "exp2", whether results below 2^-126 are kept; 0 says that the kernel has them
POLYNOMIAL = "polynomial"  # of an "exp" or "exp2": how many of each 16 registers are made by one
PAIRS = "pairs"  # of a computation or an "add" along registers: for two neighbouring registers at a time
PAIRED = ("add", "sub", "mul", "fma")  # kinds of computations that one instruction does for two f32
WARP_VOTE = "vote"  # of a multiplication: see Compute
DIGITS, FACTOR = "digits", "factor"  # of an "erfc": bits of its results' significands; what it is multiplied by, > 0

Attributes = tuple[tuple[str, int | float | str | tuple[int, ...]], ...]


@dataclass(frozen=True)
class Stmt:
    """A statement. line: of the kernel, 0 if of none. note: for people, printed as a comment."""

    line: int = field(default=0, kw_only=True)
    note: str = field(default="", kw_only=True)


NEVER = Number(0, "i1")


@dataclass(frozen=True)
class Let(Stmt):
    """Define the scalar `name` for the rest of the block."""

    name: str
    value: Expr


@dataclass(frozen=True)
class CountReuse(Stmt):
    """Define the scalar `name` (i32) for the rest of the block: how many program instances of this group, one after the
    other, just before this one had the same `values` (i32) as it has."""

    name: str
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class If(Stmt):
    """Run `body` if the condition holds (the same in all threads), else `otherwise`. rare: it seldom holds."""

    condition: Expr
    body: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()
    rare: bool = False


@dataclass(frozen=True)
class Pipeline(Stmt):
    """A software-pipelined loop of `trip` iterations (an i32 expression; nothing runs if trip <= 0).

    With k = the counter `step` (a Local): for k = 0 ... stages - 1 run prologue[k]; for k = stages ... trip - 1 run
    steady; with k = max(trip, stages) + j, j = 0 ... stages - 1, run epilogue[j]. An operation of stage s works at
    step k on iteration k - s; guards (If) in prologue and epilogue keep it inside [0, trip).

    From the first step on at which the condition `until` holds, `later` is the steady state; without one, never.
    """

    name: str
    step: str
    trip: Expr
    stages: int
    prologue: tuple[tuple[Stmt, ...], ...]
    steady: tuple[Stmt, ...]
    epilogue: tuple[tuple[Stmt, ...], ...]
    interval: int = 0  # I of the schedule, for people
    until: Expr | None = None
    later: tuple[Stmt, ...] = ()

    @property
    def steadies(self) -> tuple[tuple[Stmt, ...], ...]:
        """The steady states, in their order."""
        return (self.steady,) if self.until is None else (self.steady, self.later)


@dataclass(frozen=True)
class Acquire(Stmt):
    """The producer waits until the slot at the cursor is empty."""

    cursor: int


@dataclass(frozen=True)
class Expect(Stmt):
    """Arrive on the slot's full barrier, which then also waits for `bytes` of TMA data; none if the slot holds already
    what belongs there."""

    cursor: int
    bytes: int


@dataclass(frozen=True)
class TmaLoad(Stmt):
    """One box, global -> `target`, counted on the full barrier of the slot at `cursor`.

    coordinates: of the box's first element, outermost first (elements; may lie out of bounds: zeros).
    `target.columns` and `target.rows` are the part of the tile that the box fills. sender: the CTA of the cluster that
    alone issues it, for the slots and full barriers of all (-1: every CTA for itself). passing: where that holds (i1)
    nobody reads the box again, and it leaves the L2 cache first.
    """

    map: int
    coordinates: tuple[Expr, ...]
    target: SlotRef
    cursor: int
    sender: int = -1
    passing: Expr = NEVER


@dataclass(frozen=True)
class Publish(Stmt):
    """Every warp of the producer arrives on the slot's full barrier (transport "registers"). behind: a single arrival,
    which comes when all TensorMultiplies of the group so far are over (transport "mma")."""

    cursor: int
    behind: bool = False


@dataclass(frozen=True)
class Get(Stmt):
    """A consumer waits until the slot at the cursor is full."""

    cursor: int


@dataclass(frozen=True)
class Consumed(Stmt):
    """Every warp of the consumer arrives on the slot's empty barrier: the group will not read it again. everywhere: on
    that of every CTA of the cluster. behind: as of Publish."""

    cursor: int
    everywhere: bool = False
    behind: bool = False


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
    """A fence for MMAs: earlier register writes of `fragments` are visible to the next Multiply."""

    fragments: tuple[int, ...]


@dataclass(frozen=True)
class Multiply(Stmt):
    """accumulator[rows, n] (+)= A[rows, k] B[k, n], asynchronous; rows, n of the accumulator's layout.

    a: a fragment of 16- or 8-bit elements (layout Accumulator(rows, k)), or a slot. a_transposed: the slot's tile is
    [k, rows]. b: a slot whose tile is [k, n], or [n, k] if b_transposed. accumulate: False overwrites the accumulator.
    operand: element type of A and B. quads: A, 8-bit elements of a fragment, has its columns where a result has them
    (`twill.tile.operand_order`).
    """

    accumulator: int
    a: int | SlotRef
    b: SlotRef
    a_transposed: bool
    b_transposed: bool
    depth: int  # k
    operand: str
    accumulate: bool
    quads: bool = False


@dataclass(frozen=True)
class Commit(Stmt):
    """The multiplies since the last Commit become one group of MMAs (maybe an empty one)."""


@dataclass(frozen=True)
class WaitGroups(Stmt):
    """Wait until at most `pending` of the committed groups of MMAs are unfinished; `ready`: fragments that are
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
    """result = kind(operands), element by element; kind and attributes as in `twill.tile.vocabulary`.

    A "mul" with attribute VOTE multiplies its result by a vector; what has the factor 1 may keep its old value
    instead. A warp whose factors are all 1 does nothing.
    """

    kind: str
    operands: tuple[Operand, ...]
    result: int
    attributes: Attributes = ()


@dataclass(frozen=True)
class Copy(Stmt):
    """result = source, of equal element type and layout; or some columns of an accumulator, as a narrower one."""

    source: int
    result: int
    columns: tuple[int, int] | None = None


@dataclass(frozen=True)
class LoadShared(Stmt):
    """result = a slot's tile (or its transpose). Waiting (Get) comes before."""

    source: SlotRef
    result: int
    transposed: bool = False


@dataclass(frozen=True)
class StoreShared(Stmt):
    """A slot's tile = operand (or its transpose). columns: of what is stored, that go to the whole of `target`."""

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
    """The window = operand, where unmasked. combine: "" stores; "add", "max", "min", ... reduce atomically,
    "umax" and "umin" unsigned integers. Its elements are as wide as the argument's, but may be of another type.

    old: gets what was there (0 where nothing is touched), by atomic operations of this order, "xchg" among them; it has
    the layout in which the operand is stored, in which no two threads have one element."""

    window: Window
    operand: Operand
    mask: int | None = None
    combine: str = ""
    transposed: bool = False
    old: int | None = None
    order: str = ""


@dataclass(frozen=True)
class ProxyFence(Stmt):
    """fence.proxy.async: this thread's writes of shared memory before later asynchronous reads. memory: those of global
    memory instead, with what it has learnt of other threads'."""

    memory: bool = False


@dataclass(frozen=True)
class AwaitEarlierGrids(Stmt):
    """Wait until the grids in front of this one in its stream have ended and all that they wrote is there, then let the
    one behind it begin (PTX ISA, "griddepcontrol"): it has CTAs where there is room for them, which wait here, too.
    Done by all threads of the CTA, when barriers are made and before warp groups begin; without effect in a
    launch that does not ask for it."""


@dataclass(frozen=True)
class Sync(Stmt):
    """Wait on a named barrier."""

    barrier: int


@dataclass(frozen=True)
class Arrive(Stmt):
    """Arrive on a named barrier without waiting."""

    barrier: int
