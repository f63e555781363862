"""Scales of blocks in tensor memory: how copies leave them there, and what products read.

PTX ISA, "Scale Factor A Layout" and "tcgen05.cp" (32x128b.warpx4). What the printer makes of the statements shares no
line with this, nor does the executor of PTX.
"""

from __future__ import annotations

from twill.tile.interpret import block_scales
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np

SCALE_BITS = 8
QUARTERS, LANES = 4, 32
CHUNK_ROWS, CHUNK_SCALES = QUARTERS * LANES, 4


def copied(chunks: Array, rows: int) -> Array:
    """Of scales in chunks, those along K one behind the other and then the next rows: lanes and bytes of tensor memory
    [128, n], those of all rows for the first 4 blocks first."""
    high = rows // CHUNK_ROWS
    held = np.asarray(chunks).reshape(high, -1, LANES, QUARTERS * CHUNK_SCALES)  # rows, k, lane, bytes of 4 columns
    one = held.transpose(2, 1, 0, 3).reshape(LANES, -1)
    return np.tile(one, (QUARTERS, 1))


def chunked(scales: Array) -> Array:
    """Scales [rows, blocks] as they lie in chunks, one number behind the other: `copied` backwards."""
    rows, count = scales.shape
    held = np.asarray(scales).reshape(rows // CHUNK_ROWS, QUARTERS, LANES, count // CHUNK_SCALES, CHUNK_SCALES)
    return held.transpose(0, 3, 2, 1, 4).reshape(-1)


def read(lanes: Array, rows: int) -> Array:
    """Scales [rows, blocks along K] of what is in lanes and bytes of tensor memory: NaN where the quarters of the lanes
    differ, of which a product reads any."""
    columns = -(-rows // LANES)
    words = np.asarray(lanes).reshape(QUARTERS, LANES, -1, columns, CHUNK_SCALES)  # quarter, lane, k, column, byte
    found = block_scales.numbers(words).transpose(0, 3, 1, 2, 4).reshape(QUARTERS, columns * LANES, -1)
    return np.where((found == found[:1]).all(axis=0), found[0], np.nan)[:rows]


def scaled(tile: Array, lanes: Array, operand: str, block: int) -> Array:
    """Rows of an operand along K [rows, k] float64, times their scales. lanes: of tensor memory, from which they are
    read. operand: element type of the tile, i8 for two of e2m1; block: elements along K that have one scale."""
    numbers = block_scales.unpacked(np.ascontiguousarray(tile), "e2m1" if operand == "i8" else operand)
    return numbers * read(lanes, len(numbers)).repeat(block, axis=1)
