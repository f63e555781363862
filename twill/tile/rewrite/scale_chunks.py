"""Scales of blocks that lie in memory as tensor cores copy them are read as they are.

Kernels load such tiles by descriptors of five axes and view them as [rows, blocks] (`reshape`, `permute`, `reshape`),
which moves every element to another thread. A tensor core wants what was loaded: 512 bytes for 128 rows and 4 blocks.
Where views of a loaded tile show just that, for both operands, the product reads the tiles that were loaded. Where it
reads loaded tiles [rows, blocks] themselves, threads load them: they have to put them into that order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from twill.tile.dead_code import compact
from twill.tile.interpret.arrays import np
from twill.tile.interpret.block_scales import CHUNK_ROWS, CHUNK_SCALES, SCALE_OPERANDS, in_chunks
from twill.tile.interpret.conversions import Array
from twill.tile.program import Op, TileProgram

LOADS = ("tile_load", "descriptor_load")


def read_chunks(program: TileProgram) -> TileProgram:
    """The program whose products read chunks, or scales that threads load; the same one if there are none."""
    makers = program.makers
    changed: dict[int, Op] = {}
    for op in program.ops():
        if op.kind == "dot_scaled" and op.attribute("layout") == "rows":
            for position in SCALE_OPERANDS:
                by_threads = _loaded_by_threads(makers.get(op.operands[position]))
                changed |= {one.id: one for one in by_threads}
            loaded = [_chunks(program, makers, op.operands[position]) for position in SCALE_OPERANDS]
            if None not in loaded:
                said = {**dict(op.attributes), "layout": "chunks"}
                operands = (*op.operands[: SCALE_OPERANDS[0]], *(one for one in loaded if one is not None))
                changed[op.id] = replace(op, operands=operands, attributes=tuple(said.items()))
    return compact(program.with_ops(lambda op: changed.get(op.id, op))) if changed else program


def _loaded_by_threads(op: Op | None) -> Iterator[Op]:
    """A load by the TMA as one by threads."""
    if op is not None and op.access is not None and op.kind == "tile_load" and op.access.transport == "tma":
        reason = "its elements are scales, which go to other places than the TMA puts them"
        yield replace(op, access=replace(op.access, transport="plain", transport_reason=reason))


def _chunks(program: TileProgram, makers: dict[int, Op], scales: int) -> int | None:
    """The loaded tile of which a tile of scales shows the chunks; None if it is made otherwise."""
    rows, count = program.type_of(scales).shape
    found = _shown(program, makers, scales)
    if found is None or rows % CHUNK_ROWS or count % CHUNK_SCALES:
        return None
    base, places = found
    return base if np.array_equal(places, in_chunks(rows, count)) else None


def _shown(program: TileProgram, makers: dict[int, Op], value: int) -> tuple[int, Array] | None:
    """The loaded tile behind a chain of views, and which of its elements, counted row by row, they show."""
    op = makers.get(value)
    shape = program.type_of(value).shape
    if op is None or op.kind in LOADS:
        return None if op is None else (value, np.arange(prod(shape)).reshape(shape))
    if op.kind not in ("reshape", "transpose", "expand_dims"):
        return None
    inner = _shown(program, makers, op.operands[0])
    if inner is None:
        return None
    base, places = inner
    return base, places.transpose(op.attribute("order")) if op.kind == "transpose" else places.reshape(shape)
