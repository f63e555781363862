"""Places of elements as digits: how a rearrangement says which element comes from where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twill.tile.interpret.arrays import np

Array = Any

Digits = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A first number, then extents of digits and what each counts for, the last digit counting fastest: number e is
first + Σ digit · step, with the digits of e in a row of extents."""


def digits_of(places: Array) -> Digits | None:
    """Numbers, row by row, in that form; None if they have it not.

    0 2 4 6 1 3 5 7 is 0, (2, 4), (1, 2): a matrix of 4 rows and 2 columns, transposed.
    """
    rest = np.ascontiguousarray(places).reshape(-1)
    first = int(rest[0])
    extents: list[int] = []
    steps: list[int] = []
    while len(rest) > 1:
        step = int(rest[1] - rest[0])
        for extent in _divisors(len(rest)):
            lines = rest.reshape(-1, extent)
            if (lines == lines[:, :1] + step * np.arange(extent)).all():
                break
        else:
            return None
        extents.insert(0, extent)
        steps.insert(0, step)
        rest = lines[:, 0]
    return first, tuple(extents), tuple(steps)


def places_of(digits: Digits) -> Array:
    """The numbers that `digits_of` was given."""
    first, extents, steps = digits
    found = np.full(1, first)
    for extent, step in zip(extents, steps, strict=True):
        found = (found[:, None] + step * np.arange(extent)).reshape(-1)
    return found


def rearranged(
    operands: Sequence[Array], digits: Digits, shape: tuple[int, ...], picked: tuple[Array, int, int] | None = None
) -> Array:
    """A tile of elements of the operands, which are counted through row by row, one behind the other. picked: a tile of
    indices, what one counts for, and how many there are: added to each place (`clipped`)."""
    places = places_of(digits).reshape(shape)
    if picked is not None:
        index, step, extent = picked
        places = places + clipped(np.reshape(index, shape), extent) * step
    return np.concatenate([np.reshape(operand, -1) for operand in operands])[places]


def gathered(source: Array, index: Array, axis: int) -> Array:
    """Of a tile, along one axis, the elements that a tile of indices says."""
    return np.take_along_axis(source, clipped(index, np.shape(source)[axis]), axis)


def histogram(numbers: Array, bins: int, mask: Array | None = None) -> Array:
    """How many of the numbers are 0, 1, ..., `bins` - 1; those where the mask is false, and others, are not counted."""
    counted = (numbers >= 0) & (numbers < bins)
    there = numbers[counted if mask is None else counted & mask]
    return np.bincount(there.astype(np.int64), minlength=bins).astype(np.int32)


def clipped(index: Array, extent: int) -> Array:
    """Indices below `extent`; any other one, a negative one too, is the last."""
    wide = np.asarray(index).astype(np.int64)
    return np.where((wide < 0) | (wide >= extent), extent - 1, wide)


def _divisors(number: int) -> list[int]:
    """From the largest down to 2."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)} - {1}, reverse=True)
