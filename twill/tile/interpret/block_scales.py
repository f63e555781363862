"""Products of elements with block scales ("dot_scaled"), exactly: what the bits of elements and of scales mean.

Of the OCP Microscaling Formats (MX) specification 1.0: e4m3, e5m2, e2m1 (two in a byte, the low half first), scales of
type e8m0 (2^(bits - 127), 255 is NaN); NVIDIA's e2m1 in blocks of 16 with scales of type e4m3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twill.tile.interpret.arrays import np
from twill.tile.interpret.conversions import Array
from twill.tile.vocabulary import UNPACKED

CHUNK_ROWS, CHUNK_SCALES = 128, 4
"""Rows, and blocks along K of each, whose scales are 512 bytes of memory that a tensor core copies as they are."""
SCALE_OPERANDS = (3, 4)
"""The places of the scales of A and of B among the operands of a product."""
LANES = 32  # rows whose scales are 16 bytes apart in such a chunk
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def in_chunks(rows: int, scales: int) -> Array:
    """For each row and block along K, the place of its scale among those of a tile that lies in chunks, those along K
    one behind the other, then those of the next rows (PTX ISA, "Scale Factor A Layout" and "tcgen05.cp"): within a
    chunk, byte (r % 32) * 16 + r // 32 * 4 + k."""
    row, k = np.arange(rows)[:, None], np.arange(scales)[None, :]
    chunk = row // CHUNK_ROWS * (scales // CHUNK_SCALES) + k // CHUNK_SCALES
    within = row % LANES * 16 + row % CHUNK_ROWS // LANES * CHUNK_SCALES + k % CHUNK_SCALES
    return chunk * (CHUNK_ROWS * CHUNK_SCALES) + within


def in_rows(tile: Array, rows: int, scales: int) -> Array:
    """Scales [rows, scales] of a tile of any shape that lies in chunks."""
    return np.asarray(tile).reshape(-1)[in_chunks(rows, scales)]


def unpacked(tile: Array, element: str) -> Array:
    """Elements float64 of a tile; of e2m1 in bytes twice as many along the last axis as it has bytes."""
    if element != UNPACKED or np.asarray(tile).dtype.kind == "f":
        return np.asarray(tile, np.float64)
    bits = np.ascontiguousarray(tile).view(np.uint8)
    codes = np.stack([bits & 0xF, bits >> 4], axis=-1).reshape(*bits.shape[:-1], -1)
    return np.where(codes & 8, -1.0, 1.0) * _E2M1[codes & 7]


def numbers(scales: Array) -> Array:
    """Scales float64: of type e8m0 as bits (int8), of type e4m3 as numbers (tensor cores have no sign of them)."""
    if scales.dtype.kind == "f":
        return np.asarray(scales, np.float64)
    bits = np.ascontiguousarray(scales).view(np.uint8).astype(np.int64)
    return np.where(bits == 0xFF, np.nan, np.ldexp(1.0, bits - 127))


def operands(given: Sequence[Array], attributes: Mapping[str, Any]) -> tuple[Array, Array]:
    """A [m, k] and B [k, n], their scales multiplied in: float64, in which that is exact. given: operands of a
    "dot_scaled", a b c and the scales of both."""
    a, b, _, of_a, of_b = given
    left, right = unpacked(a, attributes["a"]), unpacked(np.asarray(b).T, attributes["b"])
    made = []
    for tile, scales in ((left, of_a), (right, of_b)):
        count = tile.shape[1] // attributes["block"]
        held = in_rows(scales, len(tile), count) if attributes["layout"] == "chunks" else np.asarray(scales)
        made.append(tile * numbers(held).repeat(attributes["block"], axis=1))
    return made[0], made[1].T


def multiplied(given: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    """A B + C: summed in float64, rounded once to float32."""
    left, right = operands(given, attributes)
    return np.asarray(left @ right + given[2]).astype(np.float32)
