"""Products with scales of blocks as Gluon says them (Triton 3.8 and later).

Scales of 128 rows and 4 blocks along K are a chunk of 512 bytes (`twill.tile.interpret.block_scales`). A slot of shared
memory has chunks as the tensor has them, [1, rows / 128, blocks / 4, 2, 256]; `in_rows` is a view of it as [rows,
blocks], and `tcgen05_copy` brings that to tensor memory, where the product reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from twill import exc
from twill.codegen.print.gluon.role import Role
from twill.codegen.warp.expression import moved
from twill.codegen.warp.program import Buffer, CopyScales, TensorMapSpec, TensorMultiply, TmaLoad, WarpProgram
from twill.tile.interpret.block_scales import CHUNK_ROWS, CHUNK_SCALES
from twill.tile.program import Op, TileProgram

COPY, MMA = "tcgen05_copy", "tcgen05_mma_scaled"
IN_ROWS, SCALES = "in_rows", "tensor_scales"
COPIED = "copy of scales"  # what is read back of a copy
PTX_COPY = re.compile(r"tcgen05\.cp\.\S*32x128b\b")
FORMATS = {"f8e4m3": "e4m3", "f8e5m2": "e5m2", "i8": "e2m1"}
"""Elements of operands -> what they are called; bytes have two of e2m1."""
KINDS = {("e2m1", "i8"): "mxf4", ("e2m1", "f8e4m3"): "mxf4nvf4"}
"""Format and element of scales -> the kind of the instruction (PTX ISA, tcgen05.mma); of others: mxf8f6f4."""
CHUNK = (2, 256)  # the last two axes of a tensor of scales, one chunk together


def refuse_scales(op: Op, program: TileProgram) -> None:
    """Raises NotInGluon for a product with scales that no schedule could say."""
    a, b = (program.type_of(operand).element for operand in op.operands[:2])
    what = ""
    if op.attribute("layout") == "rows":
        what = "scales [rows, blocks] that threads put in order have no printer for Gluon"
    elif a != b or a not in FORMATS:
        what = f"{a} times {b} with scales of blocks has no printer for Gluon"
    if what:
        hint = "both operands of one type, scales in chunks of 512 bytes, or the CUDA form (`--as cuda`)"
        raise exc.NotInGluon(what, file=program.file, line=op.line, hint=hint)


def kind_of(program: WarpProgram, stmt: TensorMultiply) -> str:
    """The kind of a product with scales."""
    assert stmt.of_a is not None
    operand, scale = (program.buffers[ref.buffer].element for ref in (stmt.a, stmt.of_a))
    return KINDS.get((FORMATS[operand], scale), "mxf8f6f4")


def chunks_of(program: WarpProgram, number: int) -> tuple[int, int] | None:
    """Chunks of scales along rows and along K of a buffer that is copied to tensor memory; None of another one."""
    for stmt in _copies(program):
        if number in (stmt.source.buffer, stmt.target.buffer):
            rows = stmt.rows // CHUNK_ROWS
            return rows, prod(program.buffers[stmt.source.buffer].shape) // prod(CHUNK) // rows
    return None


def fills_scales(program: WarpProgram, entry: TensorMapSpec) -> bool:
    """Whether copies by a tensor map bring scales that are copied to tensor memory."""
    loads = (s for group in program.groups for s in group.stmts if isinstance(s, TmaLoad))
    return any(program.maps[s.map] is entry and chunks_of(program, s.target.buffer) is not None for s in loads)


def tile_shape(program: WarpProgram, buffer: Buffer) -> tuple[int, ...]:
    """The shape of a buffer's tiles as Gluon has them."""
    chunks = chunks_of(program, buffer.id)
    if chunks is None:
        return buffer.shape
    if buffer.tensor:
        return chunks[0] * CHUNK_ROWS, chunks[1] * CHUNK_SCALES
    return 1, *chunks, *CHUNK


def block_of_scales(boxes: Sequence[TmaLoad], program: WarpProgram) -> tuple[int, ...] | None:
    """The block that the copies of a tile of scales make up; None of another tile. Raises NotInGluon where they bring
    chunks in another order than a block has."""
    first = boxes[0]
    buffer = program.buffers[first.target.buffer]
    if chunks_of(program, buffer.id) is None:
        return None
    block, box = tile_shape(program, buffer), program.maps[first.map].box
    if len(box) != len(block) or [box.target.columns for box in boxes] != list(_parts(block, box)):
        raise exc.NotInGluon(f"scales of `{buffer.name}` are no block of their tensor", line=first.line)
    for one, corner in zip(boxes, _corners(block, box), strict=True):
        if one.coordinates != tuple(map(moved, first.coordinates, corner)):
            raise exc.NotInGluon(f"copies of `{buffer.name}` do not lie side by side in the tensor", line=one.line)
    return block


def _corners(block: tuple[int, ...], box: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Where the boxes of a block begin."""
    yield from product(*(range(0, whole, part) for whole, part in zip(block, box, strict=True)))


def _parts(block: tuple[int, ...], box: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Bytes of a slot that the boxes of a block fill, if they lie behind one another."""
    size = prod(box)
    yield from ((at * size, (at + 1) * size) for at, _ in enumerate(_corners(block, box)))


def _copies(program: WarpProgram) -> Iterator[CopyScales]:
    yield from (s for group in program.groups for s in group.stmts if isinstance(s, CopyScales))


def print_copy_scales(stmt: CopyScales, role: Role) -> None:
    """Scales come to tensor memory, in front of the product that reads them: both are done in order."""
    source = f"{IN_ROWS}({role.place(stmt.source)})"
    role.out.fact(COPIED, stmt.line)
    role.out.call(COPY, [source, role.place(stmt.target)], kernel=stmt.line)


def scale_operands(stmt: TensorMultiply, role: Role) -> list[str]:
    """What a product with scales is called with behind its accumulator."""
    assert stmt.of_a is not None and stmt.of_b is not None
    said = FORMATS[role.program.buffers[stmt.a.buffer].element]
    return [role.place(stmt.of_a), role.place(stmt.of_b), f'"{said}"', f'"{said}"']
