"""Number formats of PTX and `cvt` between them: bits to numbers and back, with every rounding.

PTX ISA, "Fundamental Types", "Alternate Floating-Point Data Formats" and "cvt". Bits are unsigned integers of the
format's width (tf32 lies in 32 bits, of which the low 13 say nothing); numbers are float32, of f64 float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twill.ptx.arrays import is_number, some

Array = NDArray[Any]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format.

    width: bits it is stored in. exponent, mantissa: bits of these fields. low: bits below the mantissa. nan: the bits
    that `cvt` makes of a NaN. infinite: whether the highest exponent means infinity and NaN, as in IEEE 754; without,
    only a mantissa of ones there is NaN, and the rest are numbers.
    """

    width: int
    exponent: int
    mantissa: int
    nan: int
    low: int = 0
    infinite: bool = True

    @property
    def bias(self) -> int:
        """What is added to an exponent to store it."""
        return (1 << self.exponent - 1) - 1

    @property
    def largest(self) -> int:
        """The bits (without `low`) of the largest finite number: ones, but for what stands for infinity or NaN."""
        ones = (1 << self.exponent + self.mantissa) - 1
        return ones - (1 << self.mantissa) if self.infinite else ones - 1

    @property
    def bits(self) -> Any:
        """NumPy's type of the stored bits."""
        return {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[self.width]


FORMATS: dict[str, Format] = {
    "f16": Format(16, 5, 10, 0x7FFF),
    "bf16": Format(16, 8, 7, 0x7FFF),
    "tf32": Format(32, 8, 10, 0x7FFFFFFF, low=13),
    "e4m3": Format(8, 4, 3, 0x7F, infinite=False),
    "e5m2": Format(8, 5, 2, 0x7F),
    "f32": Format(32, 8, 23, 0x7FFFFFFF),
    "f64": Format(64, 11, 52, 0x7FFFFFFFFFFFFFFF),
}
"""By the names that PTX uses."""

ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
"""To nearest even, to zero, down, up, to nearest with ties away from zero."""


def decode(bits: Array, kind: str) -> Array:
    """The numbers that `bits` (unsigned integers of the format's width) stand for: exact, any shape.

    KeyError: no such format. TypeError: integers of another width.
    """
    form = FORMATS[kind]
    if bits.dtype != form.bits:
        raise TypeError(f"{kind} has {form.width} bits, not those of {bits.dtype}")
    match kind:
        case "f32":
            return np.asarray(bits).view(np.float32)
        case "f64":
            return bits.view(np.float64)
        case "f16":
            with np.errstate(invalid="ignore"):  # signalling NaN
                return bits.view(np.float16).astype(np.float32)
        case "bf16":
            return np.asarray(bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "tf32":
            return np.bitwise_and(bits, np.uint32(0xFFFFE000)).view(np.float32)
    return np.asarray(_small(kind)[bits])


@lru_cache
def _small(kind: str) -> Array:
    """The 256 numbers of an 8-bit format, by their bits."""
    form = FORMATS[kind]
    every = np.arange(256)
    exponent = every >> form.mantissa & (1 << form.exponent) - 1
    mantissa = every & (1 << form.mantissa) - 1
    whole = np.where(exponent == 0, mantissa, mantissa + (1 << form.mantissa))
    numbers = np.ldexp(whole.astype(np.float32), np.maximum(exponent, 1) - form.bias - form.mantissa)
    magnitude = every & 127
    if form.infinite:
        numbers[magnitude == form.largest + 1] = np.inf
        numbers[magnitude > form.largest + 1] = np.nan
    else:
        numbers[magnitude > form.largest] = np.nan
    signed: Array = np.where(every >> 7 == 1, -numbers, numbers).astype(np.float32)
    return signed


def encode(values: Array, kind: str, rounding: str = "rn", saturate: bool = False) -> Array:
    """The bits of `values` (float32 or float64, any shape) in a format, as `cvt` rounds them.

    saturate: `.satfinite`, what is beyond the largest number of the format, infinities too, becomes that number.
    Without it, overflow becomes infinity or the largest number as the rounding says; e4m3, which has no infinity, gets
    NaN. A NaN becomes the format's own, positive. Low bits of tf32 are zero. KeyError: no such format.
    ValueError: no such rounding.
    """
    form = FORMATS[kind]
    if rounding not in ROUNDINGS:
        raise ValueError(f"no rounding '{rounding}': {', '.join(ROUNDINGS)}")
    values = np.asarray(values)
    if values.dtype not in (np.float32, np.float64):
        raise TypeError(f"numbers to convert are float32 or float64, not {values.dtype}")
    if rounding == "rn" and not saturate:
        quick = _quick(values, kind)
        if quick is not None:
            if is_number(values):
                return quick
            return np.where(np.isnan(values), form.bits(form.nan), quick)
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = values.astype(np.float64)
    return _encode(wide, form, rounding, saturate)


def _quick(values: Array, kind: str) -> Array | None:
    """To nearest even where NumPy does it itself or bf16 is the upper half of a float32, NaN apart."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if kind == "f64":
            return np.ascontiguousarray(values, np.float64).view(np.uint64)
        if kind == "f32":
            return np.ascontiguousarray(values, np.float32).view(np.uint32)
        if kind == "f16":
            return values.astype(np.float16).view(np.uint16)
    if kind == "bf16" and values.dtype == np.float32:
        bits = np.ascontiguousarray(values).view(np.uint32)
        return (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return None


def _encode(values: Array, form: Format, rounding: str, saturate: bool) -> Array:
    """From float64, through integers: the magnitude's mantissa is cut where the format's ends, the rest decides."""
    bits = np.ascontiguousarray(values).view(np.uint64).reshape(values.shape)
    negative = bits >> np.uint64(63) == 1
    stored = (bits >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)
    mantissa = bits & np.uint64((1 << 52) - 1)
    whole = np.where(stored == 0, mantissa, mantissa | np.uint64(1 << 52))
    exponent = np.maximum(stored, 1) - 1023  # of the bit that stands before the point
    retained = np.maximum(exponent, 1 - form.bias)  # subnormal numbers share the lowest exponent
    cut = np.minimum(52 - form.mantissa + retained - exponent, 63).astype(np.uint64)
    below = whole & ((np.uint64(1) << cut) - np.uint64(1))
    result = whole >> cut
    half = np.where(cut > 0, np.uint64(1) << np.maximum(cut, np.uint64(1)) - np.uint64(1), np.uint64(0))
    match rounding:
        case "rn":
            up = (below > half) | ((below == half) & (cut > 0) & (result & np.uint64(1) == 1))
        case "rna":
            up = (below >= half) & (cut > 0)
        case "rz":
            up = np.zeros(values.shape, bool)
        case _:
            up = (below > 0) & (negative == (rounding == "rm"))
    result = result + up.astype(np.uint64)
    # The hidden bit, where there is one, adds itself to the exponent; so does a carry.
    hidden = (retained + form.bias - 1).astype(np.uint64) << np.uint64(form.mantissa)
    result = result + np.where(whole == 0, np.uint64(0), hidden)
    largest = np.uint64(form.largest)
    infinite = np.isinf(values)
    towards = {"rz": np.ones(values.shape, bool), "rm": ~negative, "rp": negative}.get(rounding)
    beyond = (result > largest) | infinite
    over = np.uint64(form.largest + 1 if form.infinite else form.nan & (1 << form.width - 1) - 1)
    finite = np.full(values.shape, saturate) if towards is None else saturate | (towards & ~infinite)
    result = np.where(beyond, np.where(finite, largest, over), result)
    result = result << np.uint64(form.low) | negative.astype(np.uint64) << np.uint64(form.width - 1)
    return np.where(np.isnan(values), np.uint64(form.nan), result).astype(form.bits)


def flush(values: Array) -> Array:
    """`.ftz`: subnormal float32 become zero with their sign."""
    small = np.abs(values) < np.float32(2.0**-126)
    return np.where(small, np.copysign(np.float32(0), values), values) if some(small) else values
