"""Tiles between registers and shared memory: one way for each layout.

16-bit matrices go by ldmatrix and stmatrix, other matrices by pairs of neighbouring columns, tiles without a matrix
around them by runs, vectors of a matrix by the lanes that hold them. See `twill.codegen.layout` for who holds what
and `twill.codegen.aref.Buffer` for where it lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from twill import exc
from twill.codegen.aref import Buffer, LoadShared, SlotRef, StoreShared
from twill.codegen.cuda.context import Context
from twill.codegen.cuda.elements import BYTES, from_memory, is_packed, memory_type, rounded, to_memory
from twill.codegen.cuda.places import indices, inside
from twill.codegen.layout import Accumulator, Along, Blocked, Layout, Uniform, elements_of, shape_of

_CHUNK = 16  # bytes that a swizzle moves together


@dataclass(frozen=True)
class _Move:
    """One tile to move. at: C of the slot's address. fragment, layout: in registers; first: its first column."""

    ctx: Context
    fragment: int
    ref: SlotRef
    store: bool
    transposed: bool
    first: int
    columns: int

    @property
    def layout(self) -> Layout:
        return self.ctx.fragment(self.fragment).layout

    @property
    def element(self) -> str:
        return self.ctx.fragment(self.fragment).element

    @property
    def name(self) -> str:
        return self.ctx.fragments[self.fragment]

    @property
    def buffer(self) -> Buffer:
        return self.ctx.buffer(self.ref)

    @property
    def size(self) -> int:
        return BYTES[self.buffer.element]

    @property
    def template(self) -> str:
        """C template arguments: swizzle, panel, rows."""
        buffer = self.buffer
        return f"<{buffer.swizzle}, {buffer.panel}, {buffer.shape[0]}>"

    @property
    def origin(self) -> tuple[int, int]:
        """Row, and byte of that row, of the tile's part that is meant."""
        return (self.ref.rows or (0, 0))[0], (self.ref.columns or (0, 0))[0] * self.size


def print_load_shared(stmt: LoadShared, ctx: Context) -> None:
    """The whole fragment."""
    shape = shape_of(ctx.fragment(stmt.result).layout)
    columns = shape[1] if len(shape) == 2 else 0
    _print(_Move(ctx, stmt.result, stmt.source, False, stmt.transposed, 0, columns))


def print_store_shared(stmt: StoreShared, ctx: Context) -> None:
    """The whole fragment, or some of its columns."""
    shape = shape_of(ctx.fragment(stmt.operand).layout)
    first, last = stmt.columns or (0, shape[1] if len(shape) == 2 else 0)
    _print(_Move(ctx, stmt.operand, stmt.target, True, stmt.transposed, first, last - first))


def _print(move: _Move) -> None:
    """Errors: UnsupportedInKernel if types differ or the tile does not fit the part of the slot."""
    if move.element != move.buffer.element:
        raise exc.UnsupportedInKernel(f"'{move.name}' of {move.element} does not fit '{move.buffer.name}' of {move.buffer.element}")
    _check_fit(move)
    with move.ctx.out.block():
        move.ctx.out.line(f"const u32 tile = {move.ctx.slot(move.ref)};")
        match move.layout:
            case Accumulator() if len(move.buffer.shape) == 1:
                raise exc.UnsupportedInKernel(f"'{move.buffer.name}' is a vector, '{move.name}' a matrix")
            case Accumulator() if is_packed(move.element, move.layout):
                (_transposed_matrices if move.transposed else _matrices)(move)
            case Accumulator():
                (_single_elements if move.transposed else _pairs)(move)
            case Blocked():
                (_single_elements if move.transposed else _runs)(move)
            case Along() | Uniform():
                _vector(move)


def _check_fit(move: _Move) -> None:
    shape = shape_of(move.layout)
    if len(shape) == 2:
        shape = (shape[0], move.columns)
    if move.transposed:
        shape = shape[::-1]
    tile = move.buffer.shape
    rows, columns = move.ref.rows or (0, tile[0]), move.ref.columns or (0, tile[-1])
    part = (rows[1] - rows[0], columns[1] - columns[0]) if len(tile) == 2 else (math.prod(tile),)
    if len(tile) == 1 and (move.ref.rows or move.ref.columns):
        low, high = move.ref.rows or move.ref.columns or (0, 0)
        part = (high - low,)
    if math.prod(shape) > math.prod(part) or (len(shape) == len(part) and shape != part):
        raise exc.UnsupportedInKernel(f"'{move.name}' {shape} does not fit {part} of '{move.buffer.name}'")


# ---------------------------------------------------------------- matrices of 16-bit elements
def _matrices(move: _Move) -> None:
    """16 rows and 16 columns of each warp at a time: lane l addresses row l % 16, columns 8 (l / 16)."""
    layout, (row, byte), out = move.layout, move.origin, move.ctx.out
    assert isinstance(layout, Accumulator)
    if byte % (2 * _CHUNK):
        _pairs(move)
        return
    rows = f"{row} + warp * 16 + lane % 16" if row else "warp * 16 + lane % 16"
    out.line(f"const u32 at = swizzled{move.template}(tile, {rows}, lane / 16 * {_CHUNK});")
    per_block = layout.columns // 4
    for count, columns, first in ((4, 16, 0), (2, 8, move.columns // 16 * 16)):
        steps = (move.columns - first) // columns
        if steps:
            with _blocks(move, layout.rows), out.unrolled(f"i32 j = 0; j < {steps}; ++j"):
                start = f"{per_block} * m + " if layout.rows > 64 else ""
                registers = [f"{move.name}[{start}{count} * j + {(move.first + first) // 4 + q}]" for q in range(count)]
                place = f"swizzled_step{move.template}(at, j * {2 * columns} + {byte + 2 * first})"
                place += f" + m * {64 * move.buffer.panel}" if layout.rows > 64 else ""
                out.line(f"{_verb(move)}_x{count}({place}, {', '.join(registers)});")


def _transposed_matrices(move: _Move) -> None:
    """As above, through the transposing forms: a row of the slot is a column of the fragment."""
    layout, (row, byte), out = move.layout, move.origin, move.ctx.out
    assert isinstance(layout, Accumulator)
    panel = move.buffer.panel
    if byte % panel and layout.rows > 64:
        _single_elements(move)
        return
    rows = "lane % 8 + lane / 16 * 8"
    bytes_ = f"{byte} + warp * 32 + lane / 8 % 2 * {_CHUNK}" if byte else f"warp * 32 + lane / 8 % 2 * {_CHUNK}"
    out.line(f"const u32 at = swizzled{move.template}(tile, {rows}, {bytes_});")
    per_block, block_bytes = layout.columns // 4, 128 // panel * panel * move.buffer.shape[0]
    for count, columns, first in ((4, 16, 0), (2, 8, move.columns // 16 * 16)):
        steps = (move.columns - first) // columns
        if steps:
            with _blocks(move, layout.rows), out.unrolled(f"i32 j = 0; j < {steps}; ++j"):
                start = f"{per_block} * m + " if layout.rows > 64 else ""
                registers = [f"{move.name}[{start}{count} * j + {(move.first + first) // 4 + q}]" for q in range(count)]
                place = f"at + j * {columns * panel} + {(row + first) * panel}"
                place += f" + m * {block_bytes}" if layout.rows > 64 else ""
                out.line(f"{_verb(move)}_x{count}_trans({place}, {', '.join(registers)});")


def _verb(move: _Move) -> str:
    return "stmatrix" if move.store else "ldmatrix"


# ---------------------------------------------------------------- other tiles
def _pairs(move: _Move) -> None:
    """Two neighbouring columns at a time, in one access."""
    layout, (row, byte), out, size = move.layout, move.origin, move.ctx.out, move.size
    assert isinstance(layout, Accumulator)
    if byte % (8 * size):
        _single_elements(move)
        return
    rows = f"{row} + lane_row" if row else "lane_row"
    out.line(f"const u32 at = swizzled{move.template}(tile, {rows}, lane_column * {size});")
    per_block, kind = layout.columns // 2, memory_type(move.element)
    with _blocks(move, layout.rows), out.unrolled(f"i32 i = 0; i < {move.columns // 2}; i += 2"):
        start = f"{per_block} * m + " if layout.rows > 64 else ""
        place = f"swizzled_step{move.template}(at, i / 4 * {8 * size} + {byte}) + (i >> 1 & 1) * {8 * move.buffer.panel}"
        place += f" + m * {64 * move.buffer.panel}" if layout.rows > 64 else ""
        register = f"{start}i + {move.first // 2}" if move.first else f"{start}i"
        _vector_access(move, f"Vector<{kind}, 2>", place, 2, register)


def _blocks(move: _Move, rows: int):
    raise NotImplementedError
