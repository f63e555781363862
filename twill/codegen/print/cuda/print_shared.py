"""Tiles between registers and shared memory: one way for each layout.

16-bit matrices go by ldmatrix and stmatrix, other matrices by pairs of neighbouring columns, tiles without a matrix
around them by runs, vectors of a matrix by the lanes that hold them. See `twill.codegen.warp.layout` for who holds what
and `twill.codegen.warp.program.Buffer` for where it lies.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.elements import (
    BYTES,
    SMALL,
    from_memory,
    is_packed,
    memory_type,
    to_memory,
    vector_from_memory,
    vector_in_memory,
    words_in_memory,
)
from twill.codegen.print.cuda.places import indices, inside, lane_row, owner, warp_row
from twill.codegen.print.cuda.writer import guarded
from twill.codegen.warp.layout import (
    WARP_ROWS,
    Accumulator,
    Along,
    AlongBlocked,
    Blocked,
    Layout,
    Slice,
    Uniform,
    elements_of,
    shape_of,
)
from twill.codegen.warp.program import Buffer, LoadShared, SlotRef, StoreShared

BLOCK = 64  # rows that the warps of a group have at a time
_CHUNK = 16  # bytes that a swizzle moves together


@dataclass(frozen=True)
class _Move:
    """One tile to move. fragment, layout: in registers; first: its first column; rows: of it (None: all)."""

    ctx: PrintContext
    fragment: int
    ref: SlotRef
    store: bool
    transposed: bool
    first: int
    columns: int
    rows: tuple[int, int] | None = None

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
    def uneven(self) -> bool:
        """Whether a column is swizzled in each panel by something else: one has rows that are no multiple of 8."""
        return bool(self.buffer.shape[0] % 8) and self.buffer.shape[-1] * self.size > self.buffer.panel

    @property
    def repeats(self) -> bool:
        """Whether warps that hold padding alone load what others do, too."""
        return isinstance(self.layout, Accumulator) and not (self.uneven or self.store) and bool(inside(self.layout))

    @property
    def verb(self) -> str:
        return "stmatrix" if self.store else "ldmatrix"

    @property
    def origin(self) -> tuple[int, int]:
        """Row, and byte of that row, of the tile's part that is meant."""
        return (self.ref.rows or (0, 0))[0], (self.ref.columns or (0, 0))[0] * self.size


def print_load_shared(stmt: LoadShared, ctx: PrintContext) -> None:
    """The whole fragment."""
    shape = shape_of(ctx.fragment(stmt.result).layout)
    columns = shape[1] if len(shape) == 2 else 0
    _print(_Move(ctx, stmt.result, stmt.source, False, stmt.transposed, 0, columns))


def print_store_shared(stmt: StoreShared, ctx: PrintContext) -> None:
    """The whole fragment, or some of its columns, or of its transpose's."""
    whole = (0, (*shape_of(ctx.fragment(stmt.operand).layout), 0, 0)[1])
    (first, last), rows = (whole, stmt.columns) if stmt.transposed else (stmt.columns or whole, None)
    _print(_Move(ctx, stmt.operand, stmt.target, True, stmt.transposed, first, last - first, rows))


def _print(move: _Move) -> None:
    """Errors: UnsupportedInKernel if types differ or the tile does not fit the part of the slot."""
    if move.element != move.buffer.element:
        kinds = f"'{move.name}' of {move.element}", f"'{move.buffer.name}' of {move.buffer.element}"
        raise exc.UnsupportedInKernel(f"{kinds[0]} does not fit {kinds[1]}")
    _check_fit(move)
    with move.ctx.out.block():
        move.ctx.out.line(f"const u32 tile = {move.ctx.slot(move.ref)};")
        _print_tile(move)


def _print_tile(move: _Move) -> None:
    """By the way of its layout. Warps that hold padding alone store nothing, and load what the others do: products
    behind a branch of some warps are waited for, and registers that only some of them write are alive in all loops."""
    layout = move.layout
    with guarded(move.ctx.out, inside(layout) if isinstance(layout, Accumulator) and not move.repeats else ""):
        match layout:
            case Accumulator() if len(move.buffer.shape) == 1:
                raise exc.UnsupportedInKernel(f"'{move.buffer.name}' is a vector, '{move.name}' a matrix")
            case Accumulator() if move.uneven:
                _single_elements(move)
            case Accumulator() if is_packed(move.element, move.layout):
                (_transposed_matrices if move.transposed else _matrices)(move)
            case Accumulator():
                (_transposed_elements if move.transposed else _pairs)(move)
            case Blocked():
                (_single_elements if move.transposed else _runs)(move)
            case AlongBlocked() if move.store:
                raise exc.UnsupportedInKernel(f"'{move.name}' is an index that threads make for themselves")
            case Along() | AlongBlocked() | Slice() | Uniform():
                _vector(move)


def _check_fit(move: _Move) -> None:
    shape = shape_of(move.layout)
    if len(shape) == 2:
        shape = (shape[0] if move.rows is None else move.rows[1] - move.rows[0], move.columns)
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
    rows = f"{warp_row(layout, move.repeats)}lane % 16{_plus(row)}"
    out.line(f"const u32 at = swizzled{move.template}(tile, {rows}, lane / 16 * {_CHUNK});")
    per_block = layout.columns // 4
    for count, columns, first in ((4, 16, 0), (2, 8, move.columns // 16 * 16)):
        steps = (move.columns - first) // columns
        if steps:
            with _blocks(move, layout.rows), out.unrolled(f"i32 j = 0; j < {steps}; ++j"):
                start = f"{per_block} * mb + " if layout.rows > 64 else ""
                registers = _registers(move, start, count, (move.first + first) // 4)
                place = f"swizzled_step{move.template}(at, j * {2 * columns}{_plus(byte + 2 * first)})"
                place += f" + mb * {layout.block_step * move.buffer.panel}" if layout.rows > 64 else ""
                out.line(f"{move.verb}_x{count}({place}, {', '.join(registers)});")


def _transposed_matrices(move: _Move) -> None:
    """As above, through the transposing forms: a row of the slot is a column of the fragment."""
    layout, (row, byte), out = move.layout, move.origin, move.ctx.out
    assert isinstance(layout, Accumulator)
    panel = move.buffer.panel
    begin, end = move.rows or (0, layout.rows)
    blocks = range(begin // BLOCK, -(-end // BLOCK))  # panels of what is stored are whole blocks
    if layout.rows > 64 and (byte % panel or layout.warp_rows != WARP_ROWS):
        _single_elements(move)
        return
    rows = "lane % 8 + lane / 16 * 8"
    bytes_ = f"{warp_row(layout, move.repeats, 2)}lane / 8 % 2 * {_CHUNK}"
    out.line(f"const u32 at = swizzled{move.template}(tile, {rows}, {bytes_}{_plus(byte)});")
    per_block, block_bytes = layout.columns // 4, 128 // panel * panel * move.buffer.shape[0]
    for count, columns, first in ((4, 16, 0), (2, 8, move.columns // 16 * 16)):
        steps = (move.columns - first) // columns
        if steps:
            with _blocks(move, BLOCK * len(blocks)), out.unrolled(f"i32 j = 0; j < {steps}; ++j"):
                start = f"{per_block} * mb + " if len(blocks) > 1 else ""
                registers = _registers(move, start, count, (move.first + first) // 4 + per_block * blocks.start)
                place = f"at + j * {columns * panel}{_plus((row + first) * panel)}"
                place += f" + mb * {block_bytes}" if len(blocks) > 1 else ""
                out.line(f"{move.verb}_x{count}_trans({place}, {', '.join(registers)});")


def _registers(move: _Move, start: str, count: int, first: int) -> list[str]:
    """C: the packed registers of step `j`."""
    return [f"{move.name}[{start}{count} * j{_plus(first + q)}]" for q in range(count)]


def _plus(number: int) -> str:
    """C: a constant that is added, if it is not 0."""
    return f" + {number}" if number else ""


# ---------------------------------------------------------------- other tiles
def _pairs(move: _Move) -> None:
    """Two neighbouring columns at a time, in one access."""
    layout, (row, byte), out, size = move.layout, move.origin, move.ctx.out, move.size
    assert isinstance(layout, Accumulator)
    if byte % (8 * size):
        _single_elements(move)
        return
    apart = _rows_apart(move)
    at = f"swizzled{move.template}(tile, {lane_row(layout, move.repeats)}{_plus(row)}, lane_column * {size})"
    out.line(f"const u32 at = {at}{' ^ (lane & 4) << 4' if apart else ''};")
    per_block = layout.columns // 2
    with _blocks(move, layout.rows), out.unrolled(f"i32 i = 0; i < {move.columns // 2}; i += 2"):
        start = f"{per_block} * mb + " if layout.rows > 64 else ""
        place = f"swizzled_step{move.template}(at, i / 4 * {8 * size}{_plus(byte)})"
        place += f" + (i >> 1 & 1) * {8 * move.buffer.panel}"
        place += f" + mb * {layout.block_step * move.buffer.panel}" if layout.rows > 64 else ""
        register = f"{start}i{_plus(move.first // 2)}"
        if apart:
            own, other = (f"{move.name}[{r}]" for r in (register, f"({register} ^ 8)"))
            next_own, next_other = (f"{move.name}[{r}]" for r in (f"{register} + 1", f"({register} ^ 8) + 1"))
            pair = f"pick(lane & 4, {other}, {own}), pick(lane & 4, {next_other}, {next_own})"
            out.line(f"write_shared({place}, Vector<float, 2>{{{{{pair}}}}});")
        else:
            _vector_access(move, place, 2, register)


def _rows_apart(move: _Move) -> bool:
    """Whether lanes in odd rows store the other half of their panel: where a pair has 8 bytes, the swizzle leaves two
    neighbouring rows in one quarter of the banks, and the 16 lanes of an access, in four rows, meet half of them."""
    panel = move.buffer.panel
    whole = not (move.first * move.size % panel or move.columns * move.size % panel or move.origin[1] % panel)
    return move.store and move.element == "f32" and move.buffer.swizzle == panel == 128 and whole


def _blocks(move: _Move, rows: int) -> AbstractContextManager[None]:
    """A loop over blocks, if there are several."""
    return move.ctx.out.unrolled(f"i32 mb = 0; mb < {rows // BLOCK}; ++mb") if rows > BLOCK else nullcontext()


def _single_elements(move: _Move) -> None:
    """Element by element: right for every layout and every place."""
    out, packed = move.ctx.out, is_packed(move.element, move.layout)
    step = 2 if packed else 1
    guard = " && ".join(filter(None, (_columns_guard(move), inside(move.layout) if move.repeats else "")))
    with out.unrolled(f"i32 i = 0; i < {elements_of(move.layout)}; i += {step}"), guarded(out, guard):
        places = [_place(move, f"(i + {e})" if e else "i") for e in range(step)]
        _single_access(move, places)


def _transposed_elements(move: _Move) -> None:
    """A row of the slot is a column of the fragment. A lane's bytes of 64 rows lie in a chunk of each, and rows 8 apart
    are swizzled alike, so that two addresses and constants reach all of them."""
    layout, (row, byte), out = move.layout, move.origin, move.ctx.out
    assert isinstance(layout, Accumulator)
    odd = row % 8 or byte % _CHUNK or (layout.rows > 64 and (byte % move.buffer.panel or layout.warp_rows != WARP_ROWS))
    if move.store or move.size > 1 or move.columns < layout.columns or odd:
        _single_elements(move)
        return
    for e in range(2):
        place = f"lane_column{_plus(row + e)}, {lane_row(layout, move.repeats)}{_plus(byte)}"
        out.line(f"const u32 at{e} = swizzled{move.template}(tile, {place});")
    kind = memory_type(move.element)
    count = layout.columns // 2
    with _blocks(move, layout.rows), out.unrolled(f"i32 i = 0; i < {count}; i += 2"):
        for e in range(2):
            block = f"swizzled_step{move.template}(at{e}, mb * {layout.block_step})" if layout.rows > 64 else f"at{e}"
            place = f"{block} + i / 4 * {8 * move.buffer.panel} + (i >> 1 & 1) * 8"
            value = from_memory(move.element, f"read_shared<{kind}>({place})")
            register = f"{count} * mb + i" if layout.rows > 64 else "i"
            out.line(f"{move.name}[{register}{_plus(e)}] = {value};")


def _single_access(move: _Move, places: list[str]) -> None:
    """One register, or a packed pair."""
    out, kind = move.ctx.out, memory_type(move.element)
    if move.store:
        for e, place in enumerate(places):
            value = move.ctx.value(move.fragment, f"(i + {e})" if e else "i")
            out.line(f"write_shared({place}, ({kind}){to_memory(move.element, value)});")
        return
    values = [from_memory(move.element, f"read_shared<{kind}>({place})") for place in places]
    if len(values) == 2:
        out.line(f"{move.name}[i / 2] = pack_{SMALL[move.element]}({', '.join(values)});")
    else:
        out.line(f"{move.name}[i] = {values[0]};")


def _columns_guard(move: _Move) -> str:
    """C condition that register `i` is among the columns that move (constant once the loop is unrolled); "" for all."""
    layout = move.layout
    if not isinstance(layout, Accumulator):
        return inside(layout)
    if move.columns == layout.columns:
        return ""
    column = f"i % {layout.columns // 2} / 4 * 8"
    return f"{column} >= {move.first} && {column} < {move.first + move.columns}"


def _runs(move: _Move) -> None:
    """The neighbours of a run, as many at a time as are contiguous, up to 16 bytes."""
    out, layout, tile = move.ctx.out, move.layout, move.buffer.shape
    assert isinstance(layout, Blocked)
    width = layout.run & -layout.run
    while width * move.size > _CHUNK or (len(tile) == 2 and tile[1] % width):
        width //= 2
    if width == 1 and is_packed(move.element, layout):
        _single_elements(move)
        return
    guard = inside(layout)
    with out.unrolled(f"i32 i = 0; i < {elements_of(layout)}; i += {width}"), guarded(out, guard):
        _vector_access(move, _place(move, "i"), width, "i")


def _vector(move: _Move) -> None:
    """A vector of a matrix, or one element: stored by one of the lanes that hold it, loaded by all."""
    out = move.ctx.out
    if len(move.buffer.shape) != 1:
        raise exc.UnsupportedInKernel(f"'{move.buffer.name}' is a matrix, '{move.name}' a vector of one")
    width = 2 if isinstance(move.layout, Along) and move.layout.axis == 0 else 1
    guard = owner(move.layout) if move.store else ""
    loop = out.unrolled(f"i32 i = 0; i < {elements_of(move.layout)}; i += {width}")
    with guarded(out, guard), loop, guarded(out, inside(move.layout)):
        _vector_access(move, _place(move, "i"), width, "i")


def _place(move: _Move, i: str) -> str:
    """C: address of the element in register `i`."""
    layout, tile, (row, byte) = move.layout, move.buffer.shape, move.origin
    if len(tile) == 1:
        first = row * move.size + byte
        flat = replace(layout, shape=(math.prod(layout.shape),)) if isinstance(layout, Blocked) else layout
        places = indices(flat, i)
        index = places[0].text() if places else "0"
        return f"tile + {index} * {move.size}" + (f" + {first}" if first else "")
    if isinstance(layout, Blocked) and len(layout.shape) != 2:
        rows, columns = move.ref.rows or (0, tile[0]), move.ref.columns or (0, tile[1])
        layout = replace(layout, shape=(rows[1] - rows[0], columns[1] - columns[0]))
    along = [index.text() for index in indices(layout, i)]
    if move.first:
        along[1] = f"({along[1]} - {move.first})"
    if move.transposed:
        along.reverse()
    return f"swizzled{move.template}(tile, {along[0]}{_plus(row)}, {along[1]} * {move.size}{_plus(byte)})"


def _vector_access(move: _Move, place: str, count: int, register: str) -> None:
    """`count` registers from `register` on, as one access."""
    out, name = move.ctx.out, move.name
    if is_packed(move.element, move.layout):
        _words_access(move, place, [f"{name}[({register}) / 2{_plus(word)}]" for word in range(count // 2)])
        return
    if move.store:
        held = [move.ctx.value(move.fragment, f"({register} + {e})" if e else register) for e in range(count)]
        stored, value = vector_in_memory(move.element, held)
        out.line(f"write_shared({place}, {value if count > 1 else f'({stored}){value}'});")
        return
    kind, values = vector_from_memory(move.element, count, "held")
    out.line(f"const {kind} held = read_shared<{kind}>({place});")
    for e, value in enumerate(values):
        out.line(f"{name}[{register}{_plus(e)}] = {value};")


def _words_access(move: _Move, place: str, registers: list[str]) -> None:
    """Packed registers as one access."""
    out, (kind, value) = move.ctx.out, words_in_memory(registers)
    if move.store:
        out.line(f"write_shared({place}, {value});")
    elif len(registers) == 1:
        out.line(f"{registers[0]} = read_shared<{kind}>({place});")
    else:
        out.line(f"const {kind} held = read_shared<{kind}>({place});")
        for word, register in enumerate(registers):
            out.line(f"{register} = held.at[{word}];")
