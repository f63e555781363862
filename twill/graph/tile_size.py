"""How much room a tile takes: bytes of memory, registers of a thread."""

from __future__ import annotations

import math

from twill.graph.dependence import Region, Space, Tile

_BITS = {"i1": 1, "f8e4m3": 8, "f8e5m2": 8, "i8": 8, "e2m1": 8, "f16": 16, "bf16": 16, "i16": 16, "f64": 64, "i64": 64}


def bits_of(dtype: str) -> int:
    """Bits of one element; predicates are kept as one bit."""
    return _BITS.get(dtype, 32)


def tile_bytes(tile: Tile, share: int) -> int:
    """Bytes of one of `share` equal parts of a tile."""
    return max(1, math.prod(tile.shape) * bits_of(tile.dtype) // 8 // share)


def tensor_bytes(tile: Tile, share: int, row_block: int) -> int:
    """Bytes of tensor memory that one of `share` equal parts of a tile takes: of as many lanes as a product of
    `row_block` rows has, since nothing lies in those that one of fewer rows leaves."""
    rows = tile.shape[0] // share
    return tile_bytes(tile, share) * max(rows, row_block) // rows


def tile_registers(tile: Tile, share: int, region: Region, accumulator: Space) -> int:
    """Registers per thread of a 128-thread warp group that one of `share` equal parts takes.

    A matrix is spread evenly. A vector follows the rows or the columns of the accumulator
    fragment: in registers four lanes share a row, and a thread holds a
    quarter of the columns; in tensor memory's layout one thread owns a row.
    """
    extents = [e for e in tile.shape if e > 1]
    words = max(bits_of(tile.dtype), 32) / 32
    if len(extents) >= 2:
        return max(1, -(-tile_bytes(tile, share) // 512))
    if not extents:
        return max(1, int(words))
    size = extents[0] // share
    rows = any(n.mma and n.mma.m_dim in tile.dims for n in region.nodes)
    lanes = 32 if accumulator == "register" else 128
    columns = 4 if accumulator == "register" else 128
    has_mma = any(n.mma for n in region.nodes)
    per_thread = size / lanes if rows else size / (columns if has_mma else 128)
    return max(1, int(-(-per_thread * words // 1)))
