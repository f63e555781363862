"""What products ask of their operands, and statements about tensor memory of theirs: shapes, layouts, descriptors."""

from __future__ import annotations

import math
from collections.abc import Iterator

from twill.codegen.verify.abstract.tensor_scales import CHUNK_ROWS, CHUNK_SCALES
from twill.codegen.warp import program as ir
from twill.codegen.warp.layout import Accumulator, Blocked, shape_of
from twill.graph.work import BITS

MOST_COLUMNS = 256  # of one MMA
MIXED = frozenset(("f8e4m3", "f8e5m2"))  # types of elements that a product in tensor memory may have side by side
NARROW = frozenset(("e2m1",))  # and with scales
TENSOR_ROWS, TENSOR_STEP = 128, 16  # of an accumulator in tensor memory; its columns are multiples
TENSOR_PIECE = 8  # columns that a load or store of tensor memory has multiples of
TENSOR_WARP_ROWS = 32  # a warp's quarter of its rows
K_BYTES = 32  # of one MMA along k
SCALED = {
    ("f8e4m3", "i8", 32): 1, ("f8e5m2", "i8", 32): 1, ("e2m1", "i8", 32): 1, ("i8", "i8", 32): 2,
    ("i8", "f8e4m3", 16): 2,
}  # fmt: skip
"""Of a product with scales (PTX ISA, "tcgen05 block scaling"): elements of tiles and of scales (i8: two of e2m1, and
e8m0; e2m1: of which each has a place), elements of a block; how many are in an element of a tile."""


def region(program: ir.WarpProgram, ref: ir.SlotRef) -> tuple[int, int]:
    """Rows and columns of the part of a tile that is meant."""
    shape = program.buffers[ref.buffer].shape
    rows = (0, math.prod(shape[:-1])) if ref.rows is None else ref.rows
    columns = (0, shape[-1]) if ref.columns is None else ref.columns
    return rows[1] - rows[0], columns[1] - columns[0]


Fragments = dict[int, ir.Fragment]


def multiply(stmt: ir.Multiply, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    """A product in registers."""
    into = fragments[stmt.accumulator]
    if not isinstance(into.layout, Accumulator) or into.element not in ("f32", "i32", "f16"):
        yield f"`{into.name}` is no accumulator"
        return
    rows, columns = into.layout.rows, into.layout.columns
    bits = BITS[stmt.operand]
    if rows % 64 and (rows > 64 or rows % 16 or isinstance(stmt.a, ir.SlotRef)):
        yield f"no MMA makes {rows} rows, but of 64 of an A in registers"
    if columns % 8 or columns > MOST_COLUMNS:
        yield f"no MMA makes {rows} x {columns}"
    if stmt.depth * bits % (8 * K_BYTES):
        yield f"k = {stmt.depth} is no multiple of {K_BYTES * 8 // bits}"
    if isinstance(stmt.a, ir.SlotRef):
        wanted = (stmt.depth, rows) if stmt.a_transposed else (rows, stmt.depth)
        yield from _operand("A", stmt.a, wanted, stmt.a_transposed, stmt.operand, program)
    else:
        left = fragments[stmt.a]
        if left.layout != Accumulator(rows, stmt.depth):
            yield f"A, `{left.name}`, is not {rows} x {stmt.depth} in the layout of an accumulator"
        if left.element != stmt.operand or bits not in (8, 16) or stmt.a_transposed:
            yield f"A, `{left.name}`, is {left.element} in registers, the operands are {stmt.operand}"
    if stmt.quads and (isinstance(stmt.a, ir.SlotRef) or bits != 8):
        yield "quads are of 8-bit elements in registers"
    wanted = (columns, stmt.depth) if stmt.b_transposed else (stmt.depth, columns)
    yield from _operand("B", stmt.b, wanted, not stmt.b_transposed, stmt.operand, program)


def tensor_multiply(stmt: ir.TensorMultiply, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    """A product in tensor memory."""
    into = program.buffers[stmt.target.buffer]
    rows, columns = region(program, stmt.target)
    sums = "i32" if stmt.operand == "i8" and not stmt.block else "f32"
    if not into.tensor or into.element != sums or (rows, columns) != into.shape:
        yield f"`{into.name}` is no accumulator in tensor memory"
    if rows not in (TENSOR_ROWS, TENSOR_ROWS // 2) or columns % TENSOR_STEP or columns > MOST_COLUMNS:
        yield f"no MMA makes {rows} x {columns} in tensor memory"
    if stmt.depth * BITS[stmt.operand] % (8 * K_BYTES):
        yield f"k = {stmt.depth} is no multiple of {K_BYTES * 8 // BITS[stmt.operand]}"
    wanted = (stmt.depth, rows) if stmt.a_transposed else (rows, stmt.depth)
    if program.buffers[stmt.a.buffer].tensor:
        yield from _tensor_operand(stmt, program)
    else:
        yield from _operand("A", stmt.a, wanted, stmt.a_transposed, stmt.operand, program)
    if stmt.block:
        yield from _scales(stmt, rows, columns, program)
    if any(ring.pair and stmt.target.buffer in ring.buffers for ring in program.arefs):  # a half of B
        columns //= 2
    wanted = (columns, stmt.depth) if stmt.b_transposed else (stmt.depth, columns)
    other = program.buffers[stmt.b.buffer].element
    of_b = other if {other, stmt.operand} <= (MIXED | NARROW if stmt.block else MIXED) else stmt.operand
    yield from _operand("B", stmt.b, wanted, not stmt.b_transposed, of_b, program)


def _scales(stmt: ir.TensorMultiply, rows: int, columns: int, program: ir.WarpProgram) -> Iterator[str]:
    """Scales of both operands, of one type that the product has."""
    if stmt.of_a is None or stmt.of_b is None:
        yield "has scales of one operand alone"
        return
    if rows != TENSOR_ROWS:
        yield f"no MMA of {rows} rows has scales"
    held = [program.buffers[ref.buffer] for ref in (stmt.of_a, stmt.of_b)]
    if (stmt.operand, held[0].element, stmt.block) not in SCALED:
        yield f"no MMA has {stmt.operand} with scales of {held[0].element} for {stmt.block} each"
        return
    count = stmt.depth * SCALED[stmt.operand, held[0].element, stmt.block] // stmt.block
    for buffer, extent in zip(held, (rows, columns), strict=True):
        shape = TENSOR_ROWS, -(-extent // TENSOR_WARP_ROWS) * count
        if not buffer.tensor or buffer.element != held[0].element or buffer.shape != shape:
            yield f"`{buffer.name}` is no tensor memory with {count} scales of {extent} rows each"
    if program.buffers[stmt.a.buffer].tensor:
        yield "A is in tensor memory, and has scales"


def copy_scales(stmt: ir.CopyScales, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    """Scales in chunks to tensor memory."""
    source, target = program.buffers[stmt.source.buffer], program.buffers[stmt.target.buffer]
    lanes, chunk = target.shape[0], CHUNK_ROWS * CHUNK_SCALES
    if source.tensor or len(source.shape) != 1 or stmt.source.columns is not None or source.shape[0] % chunk:
        yield f"`{source.name}` has no chunks of {chunk} scales one behind the other"
    if not target.tensor or lanes != TENSOR_ROWS or target.shape[1] * TENSOR_WARP_ROWS != source.shape[0]:
        yield f"`{target.name}` is no tensor memory for all of `{source.name}`"
    if stmt.rows % CHUNK_ROWS or source.shape[0] % (stmt.rows * CHUNK_SCALES) or source.element != target.element:
        yield f"`{source.name}` has no scales of {stmt.rows} rows"


def store_scales(stmt: ir.StoreScales, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    """Scales of whole chunks from registers, dealt to the threads element by element."""
    held, buffer = fragments[stmt.operand], program.buffers[stmt.target.buffer]
    shape = shape_of(held.layout)
    if not isinstance(held.layout, Blocked) or len(shape) != 2 or shape[0] % CHUNK_ROWS or shape[-1] % CHUNK_SCALES:
        yield f"`{held.name}` has no scales of {CHUNK_ROWS}s of rows and {CHUNK_SCALES}s of blocks"
    if buffer.tensor or buffer.shape != (math.prod(shape),) or buffer.element != held.element:
        yield f"`{buffer.name}` has no room for the chunks of `{held.name}`"


def _tensor_operand(stmt: ir.TensorMultiply, program: ir.WarpProgram) -> Iterator[str]:
    """An operand A in tensor memory: as it is, along k, of 16 bits."""
    buffer, found = program.buffers[stmt.a.buffer], region(program, stmt.a)
    if found[0] != TENSOR_ROWS:
        yield f"A, `{buffer.name}`, is in tensor memory with {found[0]} rows, which would have to be there twice"
    if stmt.a_transposed or BITS[stmt.operand] != 16:
        yield f"A, `{buffer.name}`, is in tensor memory, where only 16-bit operands with k along their rows are"
    if found != (region(program, stmt.target)[0], stmt.depth) or buffer.element != stmt.operand:
        yield f"A, `{buffer.name}`, is {found[0]} x {found[1]} of {buffer.element}"


def load_accumulator(stmt: ir.LoadAccumulator, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    """Tensor memory into registers."""
    yield from _in_tensor_memory(stmt.result, stmt.source, program, fragments, ("f32", "i32"))


def store_accumulator(stmt: ir.StoreAccumulator, program: ir.WarpProgram, fragments: Fragments) -> Iterator[str]:
    """Registers into tensor memory."""
    yield from _in_tensor_memory(stmt.operand, stmt.target, program, fragments, ("f32", "bf16", "f16"))


def _in_tensor_memory(
    number: int, ref: ir.SlotRef, program: ir.WarpProgram, fragments: Fragments, elements: tuple[str, ...]
) -> Iterator[str]:
    """A fragment and the part of a slot in tensor memory that it comes from or goes to."""
    held, buffer = fragments[number], program.buffers[ref.buffer]
    rows, columns = region(program, ref)
    if (
        not buffer.tensor
        or held.layout != Accumulator(rows, columns, rows * TENSOR_WARP_ROWS // TENSOR_ROWS)
        or held.element != buffer.element
        or held.element not in elements
        or rows != buffer.shape[0]
    ):
        yield f"`{held.name}` is not `{buffer.name}` as tensor memory is read and written"
    if (ref.columns or (0, 0))[0] % TENSOR_PIECE or columns % TENSOR_PIECE:
        yield f"columns {ref.columns} of `{buffer.name}`, possible are multiples of {TENSOR_PIECE}"


def _operand(
    name: str, ref: ir.SlotRef, wanted: tuple[int, int], across: bool, element: str, program: ir.WarpProgram
) -> Iterator[str]:
    """across: k runs along the rows of the tile, not along its columns."""
    buffer = program.buffers[ref.buffer]
    found = region(program, ref)
    if buffer.tensor:
        yield f"{name}, `{buffer.name}`, is in tensor memory"
    if found != wanted:
        yield f"{name}, `{buffer.name}`, is {found[0]} x {found[1]}, not {wanted[0]} x {wanted[1]}"
    if buffer.element != element:
        yield f"{name}, `{buffer.name}`, is {buffer.element}, the operands are {element}"
    if across and BITS[element] != 16:
        yield f"{name}, `{buffer.name}`, must have k along its rows: only 16-bit operands may be transposed"
    atom = 8
    if ref.rows is not None and ref.rows[0] % atom:
        yield f"{name}, `{buffer.name}`, begins at row {ref.rows[0]}, inside of a swizzle pattern"
    start = (ref.columns or (0, 0))[0] * BITS[element] // 8
    if start % (buffer.panel if across else K_BYTES):
        yield f"{name}, `{buffer.name}`, begins at byte {start} of its rows, inside of a panel"
