"""Scales of blocks of elements, and elements of 4 bits: `tcgen05.mma` of kinds mxf8f6f4, mxf4 and mxf4nvf4.

PTX ISA, "Scale Factor A Layout" and "Scale Factor B Layout" of tcgen05, "Packing formats for sub-byte matrix elements";
the scale types are those of the OCP MX specification (ue8m0) and e4m3 without its sign (ue4m3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twill.codegen.verify.ptx.units.tensor_memory import LANES, QUARTER
from twill.ptx.arrays import some
from twill.ptx.formats import decode

Array = NDArray[Any]

NARROW = {"e2m1": 8, "e2m1x2": 16}
"""Operands of 4 bits: bytes of each 16 in shared memory that hold elements. e2m1 has 8 of padding behind 16 elements,
as the TMA leaves them that unpacks; e2m1x2, of the kinds for 4 bits alone, has none."""
COUNTS = {
    ("mxf8f6f4", 32): 1, ("mxf4", 32): 2, ("mxf4nvf4", 32): 2, ("mxf4nvf4", 16): 4,
}  # fmt: skip
"""Scales of a row in one product, of its kind and the elements of a block."""
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
_BYTES = 4  # of a word


def narrow(chunks: Array, kind: str) -> Array:
    """The elements float64 [..., n] of chunks uint8 [..., 16]; the low half of a byte is first."""
    held = chunks[..., : NARROW[kind]]
    bits = np.stack([held & 0xF, held >> 4], axis=-1).reshape(*held.shape[:-1], -1)
    made: Array = np.where(bits & 0x8, -1.0, 1.0) * _E2M1[bits & 0x7]
    return made


def places(rows: int) -> tuple[Array, Array]:
    """Lanes [4, rows] and columns [1, rows] from the address on of the words with the scales of rows of an operand: 32
    rows a column, and the same in each quarter of the lanes."""
    row = np.arange(rows)
    return np.arange(0, LANES, QUARTER)[:, None] + row % QUARTER, row[None] // QUARTER


def factors(words: Array, kind: str, first: int, count: int) -> Array:
    """The scales float64 [rows, count] of words uint32 [4, rows] as `places` says, from byte `first` on.

    ValueError: bytes beyond the word, quarters of the lanes that differ, a ue4m3 with a sign.
    """
    if first % count or first + count > _BYTES:
        raise ValueError(f"{count} scales from byte {first} of a word on")
    held = np.ascontiguousarray(words).view(np.uint8).reshape(*words.shape, _BYTES)[..., first : first + count]
    if some(held != held[:1]):
        _, row, _ = np.argwhere(held != held[:1])[0].tolist()
        raise ValueError(f"the scales of row {row} differ between the quarters of the lanes")
    bits = held[0]
    if kind == "ue8m0":
        return np.where(bits == 0xFF, np.nan, np.ldexp(1.0, bits.astype(np.int64) - 127))
    if some(bits > 0x7F):
        raise ValueError("a scale of type ue4m3 has a sign")
    return decode(np.ascontiguousarray(bits), "e4m3").astype(np.float64)


def scaled(operand: Array, scales: Array) -> Array:
    """The operand [rows, k], each of its `count` blocks along K times its scale [rows, count]: exact."""
    blocks = operand.reshape(len(operand), scales.shape[1], -1)
    with np.errstate(invalid="ignore"):
        return np.asarray(blocks * scales[..., None]).reshape(operand.shape)
