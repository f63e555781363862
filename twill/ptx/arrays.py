"""Questions about arrays of a few lanes or bytes, for which NumPy's own methods take longer than most instructions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twill.ptx.step import Array

count = np.count_nonzero
SMALL = 4096  # elements that one thread sums up


def some(array: Array) -> bool:
    """Whether any is true or not zero."""
    return bool(count(array))


def every(array: Array) -> bool:
    """Whether all are."""
    return bool(count(array) == array.size)


def is_number(array: Array) -> bool:
    """Whether no float is a NaN: a sum of squares is NaN of a NaN only."""
    if array.size > SMALL:
        return not count(np.isnan(array))
    square = np.vdot(array, array)
    return bool(square == square)


def distinct(array: Array) -> Array:
    """Small integers, none negative, each once and in their order."""
    return np.flatnonzero(np.bincount(array.reshape(-1)))


def frozen(numbers: Array) -> NDArray[np.int64]:
    """Integers that nobody changes any more: what is made once for many."""
    made: NDArray[np.int64] = np.ascontiguousarray(numbers, np.int64)
    made.flags.writeable = False
    return made


def lowest(array: Array) -> int:
    """Of integers."""
    return int(array.item(array.argmin()))


def highest(array: Array) -> int:
    """Of integers."""
    return int(array.item(array.argmax()))
