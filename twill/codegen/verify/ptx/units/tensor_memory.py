"""Tensor memory: 128 lanes x 512 columns of 32 bits, what its addresses say, and which cells an instruction touches.

PTX ISA, "Tensor Memory Addressing", "tcgen05 Data Movement Shape" and "Data Path Layout Organization".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twill.ptx.arrays import frozen

Array = NDArray[Any]

LANES = 128
COLUMNS = 512
QUARTER = 32  # lanes that a warp reaches: those of its number modulo 4
HALF = 16  # lanes of a quarter that a product of 64 rows has
LEAST = 32  # columns of an allocation

_SHAPE = re.compile(r"32x32b|16x64b|16x128b|16x256b|16x32bx2")


def decoded(address: int) -> tuple[int, int]:
    """Lane (bits 16-31) and column (bits 0-15) of an address. ValueError: outside of tensor memory."""
    lane, column = address >> 16, address & 0xFFFF
    if lane >= LANES or column >= COLUMNS:
        raise ValueError(f"address {address:#010x} is lane {lane}, column {column} of {LANES} x {COLUMNS}")
    return lane, column


def is_shape(name: str) -> bool:
    """Whether `tcgen05.ld` and `.st` have a shape of that name."""
    return _SHAPE.fullmatch(name) is not None


@lru_cache(maxsize=64)
def moved(shape: str, count: int, split: int = 0) -> tuple[Array, Array]:
    """Lane and column, from the address on, of each thread's registers in `tcgen05.ld` and `.st`: [32, registers] each.

    count: N of `.xN`. split: columns from the first to the second half of `16x32bx2`. With t the thread and r the
    register: 32x32b has lane t, column r. 16x32bx2 has lane t % 16, column r, of threads from 16 on `split` further on.
    16x64b has lane t / 4 + 8 (t % 2), column 2 r + t / 2 % 2. 16x128b has lane t / 4 + 8 (r % 2), column t % 4 +
    4 (r / 2). 16x256b has lane t / 4 + 8 (r / 2 % 2), column 2 (t % 4) + r % 2 + 8 (r / 4).
    """
    t, r = np.ogrid[:32, : count * {"16x128b": 2, "16x256b": 4}.get(shape, 1)]
    lane, column = {
        "32x32b": (t, r),
        "16x32bx2": (t % 16, r + split * (t // 16)),
        "16x64b": (t // 4 + 8 * (t % 2), 2 * r + t // 2 % 2),
        "16x128b": (t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)),
        "16x256b": (t // 4 + 8 * (r // 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r // 4)),
    }[shape]
    return frozen(lane + 0 * r), frozen(column + 0 * t)


@lru_cache(maxsize=8)
def rows_of(m: int, lane: int) -> Array:
    """The lanes of the rows of D, and of A in tensor memory, of a product of one CTA's m rows whose address has `lane`:
    all lanes for 128 rows; for 64 the lower (lane 0) or the upper (lane 16) half of each quarter.

    ValueError: no such rows.
    """
    if (m, lane) == (LANES, 0):
        return frozen(np.arange(LANES))
    if m == LANES // 2 and lane in (0, HALF):
        row = np.arange(m)
        return frozen(row // HALF * QUARTER + row % HALF + lane)
    raise ValueError(f"a product of {m} rows at lane {lane}")
