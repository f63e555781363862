"""The fast functions (`.approx`) of float32 and float64: the right result, rounded to nearest, and how far hardware may
be off.

PTX ISA, "Floating Point Instructions". Hardware interpolates in tables; its results are the true ones within `ERROR`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twill.ptx.arrays import some
from twill.ptx.formats import flush

Array = NDArray[Any]


@dataclass(frozen=True)
class Error:
    """The largest error that the PTX ISA documents. kind: of the result, absolute, or in units in its last place.

    inside: the magnitudes of operands that it holds for, where it does not hold for all.
    """

    size: float
    kind: Literal["relative", "absolute", "ulp"]
    inside: tuple[float, float] = (0.0, float("inf"))


ERROR: dict[str, Error] = {
    "ex2": Error(2.0**-22, "relative"),
    "lg2": Error(2.0**-22, "relative"),  # outside of (0.5, 2); inside absolute, of the same size
    "rcp": Error(1.0, "ulp"),
    "sqrt": Error(2.0**-23, "relative"),
    "rsqrt": Error(2.0**-22.9, "relative"),
    "sin": Error(2.0**-20.5, "absolute", (0.0, 2 * np.pi)),
    "cos": Error(2.0**-20.5, "absolute", (0.0, 2 * np.pi)),
    "tanh": Error(2.0**-11, "relative"),
}

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "rcp": lambda x: 1.0 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


def approximate(name: str, values: Array, ftz: bool) -> Array:
    """`name`.approx.f32 of float32 `values`; ftz: subnormal operands and results are zeros with their sign.

    Special cases are those of the ISA: NaN of NaN, of roots and logarithms of what is negative, and of sine and cosine
    of infinities; -0 has the reciprocal (and the reciprocal root) -infinity, and itself as root, sine and tanh.
    KeyError: no such function.
    """
    if values.dtype != np.float32:
        raise TypeError(f"fast functions take float32, not {values.dtype}")
    operand = flush(values) if ftz else values
    with np.errstate(all="ignore"):
        result = _FUNCTIONS[name](operand.astype(np.float64)).astype(np.float32)
    nan = np.isnan(result)
    if some(nan):
        result = np.where(nan, np.uint32(0x7FFFFFFF).view(np.float32), result)
    return flush(result) if ftz else result


GROSS = ("rcp", "rsqrt")
_UPPER, _LAST = np.uint64(0xFFFFFFFF00000000), np.uint64(1 << 32)
_LEAST = 2.0**-1022  # of normal numbers


def gross(name: str, values: Array) -> Array:
    """`name`.approx.ftz.f64 of float64 `values`: sign, exponent and 20 bits of the mantissa of what the upper halves of
    the operands give, the lower halves 0. Subnormal operands and results are zeros with their sign (PTX ISA,
    "rcp.approx.ftz.f64"). KeyError: no such function."""
    upper = (values.view(np.uint64) & _UPPER).view(np.float64)
    upper = np.where(np.isnan(values), values, upper)
    with np.errstate(all="ignore"):
        result = _FUNCTIONS[name](np.where(np.abs(upper) < _LEAST, np.copysign(0.0, upper), upper))
    nearest = ((result.view(np.uint64) + (_LAST >> np.uint64(1))) & _UPPER).view(np.float64)
    result = np.where(np.isfinite(result), nearest, result)
    return np.where(np.abs(result) < _LEAST, np.copysign(0.0, result), result)
