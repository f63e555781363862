"""D = A B + C of matrix instructions, as numbers: sums without error, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twill.ptx.formats import encode

Array = NDArray[Any]


def multiply_add(a: Array, b: Array, c: Array | None, kind: str, saturate: bool = False) -> Array:
    """The bits of A B + C in the accumulator's type.

    a [..., m, k], b [..., k, n] and c [..., m, n] are float64, or int64 for kind s32. Hardware sums f32 in an order and
    with a width that the ISA leaves open: here products are summed in float64 and rounded to nearest once. s32 wraps,
    or with `saturate` is clamped.
    """
    with np.errstate(all="ignore"):
        total = np.matmul(a, b)
        if c is not None:
            total = total + c
    if kind == "s32":
        whole = np.clip(total, -(1 << 31), (1 << 31) - 1) if saturate else total
        wrapped: Array = whole.astype(np.uint64).astype(np.uint32)
        return wrapped
    return encode(np.asarray(total), kind)
