"""What the statements of a warp program refer to: tiles in shared and global memory, rings, barriers, registers.

The grammar is in `twill.codegen.warp.program`.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.layout import Layout
from twill.graph.work import BITS

MAP_BYTES = 16 * 8  # of a tensor map: 16 numbers of 8 bytes (CUDA driver API, CUtensorMap)
COLUMN_BITS = 32  # of one lane of a column of tensor memory (PTX ISA, "Tensor Memory Addressing")


# ---------------------------------------------------------------- shared memory
@dataclass(frozen=True)
class Buffer:
    """A ring of `slots` tiles in shared memory; slots are `bytes` apart, at `offset` from the start.

    A tile of shape (rows, columns) and rank 2 lies in panels: panel p holds columns [p·w, (p + 1)·w), w·size =
    `panel` bytes, as rows of `panel` bytes one after the other, panels rows·`panel` bytes apart. Within a row,
    16-byte chunks are exchanged by the swizzle of `swizzle` bytes (128: chunk ^ (line & 7); 64: chunk ^ ((line >> 1)
    & 3); 32: chunk ^ ((line >> 2) & 1); 0: none), line = p·rows + row, as the TMA takes it from bits of the address:
    in tiles of a multiple of 8 rows the row itself. A tile of rank 1 is contiguous, without a swizzle.

    tensor: the ring is in tensor memory instead: row r of a slot is lane r, a slot begins at column `offset` + slot
    times `stride`, of 32 bits each; column c of the tile is c behind that, or c / 2 for elements of 16 bits, the even
    one in the low half.
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
    tensor: bool = False

    @property
    def width(self) -> int:
        """Columns of tensor memory that a tile takes."""
        return self.shape[-1] * BITS[self.element] // COLUMN_BITS

    @property
    def stride(self) -> int:
        """Columns of tensor memory from one slot to the next."""
        return self.bytes * 8 // (COLUMN_BITS * self.shape[0])


@dataclass(frozen=True)
class Aref:
    """A ring. buffers: the buffers that share this pair of barriers (a tuple aref), all of `depth` slots.

    transport: how it is filled: "tma" (full completes by one arrive.expect_tx and the bytes of its loads),
    "registers" (each warp of the producer arrives after its stores), "instance" (the same by one thread, with which
    program instance is next; every group that takes instances alternately is a consumer), "mma" (one arrival when the
    producer's TensorMultiplies are over; its buffers are in tensor memory). full_count, empty_count:
    arrivals that complete a phase of the full and the empty barrier. Every warp of a consumer group arrives once at
    Consumed.
    shared: the CTAs of a cluster fill their slots together, each with its part for all; so a slot is empty when the
    consumers of every CTA have given it back.
    pair: of products that the first of two CTAs issues for both (`twill.codegen.warp.program`).
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
    shared: bool = False
    pair: bool = False


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

    @property
    def whole(self) -> SlotRef:
        """All of the slot."""
        return SlotRef(self.buffer, self.cursor)


# ---------------------------------------------------------------- operands
@dataclass(frozen=True)
class Reg:
    """A fragment as an operand, spread along the axes that it lacks.

    axes: for each axis of the result, the axis of the fragment, or -1 along which it repeats. (): as it is,
    or a Uniform.
    """

    fragment: int
    axes: tuple[int, ...] = ()


Operand = Reg | Expr


# ---------------------------------------------------------------- global memory
@dataclass(frozen=True)
class TensorMapSpec:
    """A tensor map that the launcher makes from the arguments. Axes outermost first, as in the tile.

    sizes: elements along each axis, None where the kernel states no bound. strides: in elements, the last is 1.
    offset: of element (0, ..., 0) from the argument's address, in elements. box: elements moved by one copy.
    together: neighbours along the last axis that the copy engine takes for one element of a wider type, so that a box
    is as much longer; sizes, strides but the last, offset and coordinates are multiples of it.
    All expressions are over scalar arguments only.
    made: 0 if the launcher makes it. Else the elected threads of warp groups do, each its own in memory of the CTA
    (MakeMap), from a template of the launcher's: sizes, strides and offset are nothing here, and this is the first,
    second, ... such map of a group.
    """

    id: int
    argument: str
    element: str
    sizes: tuple[Expr | None, ...]
    strides: tuple[Expr, ...]
    offset: Expr
    box: tuple[int, ...]
    swizzle: int
    together: int = 1
    made: int = 0


@dataclass(frozen=True)
class WindowAxis:
    """As `twill.tile.program.Axis`, with expressions: element offset + i, i in [0, extent), masked outside
    [lower, upper) of offset + i."""

    extent: int
    stride: Expr
    offset: Expr
    lower: Expr | None = None
    upper: Expr | None = None


@dataclass(frozen=True)
class WindowIndex:
    """A tile of integers, spread to the tile in registers that is moved, that is part of its address: `scale` elements
    (i64) times the integer."""

    tile: Reg
    scale: Expr


@dataclass(frozen=True)
class Window:
    """A tile of global memory, element by element: argument + constant + Σ stride·(offset + i) + Σ scale·index.

    where: tiles of i1, spread likewise; what one of them leaves out is masked.
    """

    argument: str
    element: str
    axes: tuple[WindowAxis, ...]
    constant: Expr
    pad: float
    indices: tuple[WindowIndex, ...] = ()
    where: tuple[Reg, ...] = ()


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
