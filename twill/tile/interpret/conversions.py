"""Conversions between element types, as the instructions define them that Triton makes (PTX ISA, *cvt*).

Floats of 16 and 8 bits are held as float32 that the type can hold. f8e4m3 has no infinities and a largest number of
448, f8e5m2 of 57344: conversions to them saturate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twill.tile.interpret.arrays import np

Array = Any  # np.ndarray or a NumPy scalar

HELD: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float32, "bf16": np.float32, "f8e4m3": np.float32,
    "f8e5m2": np.float32, "e2m1": np.float32, "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64,
}  # fmt: skip

_UNSIGNED = {np.dtype(np.int8): np.uint8, np.dtype(np.int16): np.uint16, np.dtype(np.int32): np.uint32,
             np.dtype(np.int64): np.uint64}  # fmt: skip

WHOLE = frozenset({"f64", "f32", "i1", "i8", "i16", "i32", "i64"})
"""Types that are held as themselves."""

EXACT_INTEGERS = 1 << 53  # float64 holds every integer up to here


def unsigned(values: Array) -> Array:
    """Integers as unsigned ones of the same bits; others as they are."""
    array = np.asarray(values)
    return array.view(_UNSIGNED[array.dtype]) if array.dtype in _UNSIGNED else array


def rounded(values: Array, element: str, *, towards_zero: bool = False) -> Array:
    """The values as an array that holds `element`, rounded once, to nearest even unless `towards_zero`."""
    if element in WHOLE and isinstance(values, (np.ndarray, np.generic)) and values.dtype == HELD[element]:
        return np.asarray(values)
    if element in WHOLE and isinstance(values, int):
        return np.asarray(values).astype(HELD[element])
    with np.errstate(over="ignore", invalid="ignore"):  # infinities are values like others
        return _rounded(values, element, towards_zero)


def _rounded(values: Array, element: str, towards_zero: bool) -> Array:
    match element:
        case "bf16":
            return _bf16(_single(values), towards_zero)
        case "f16":
            return _f16(_single(values), towards_zero)
        case "f8e4m3":
            return _small_float(_single(values), mantissa=3, least=-6, largest=448.0)
        case "f8e5m2":
            return _f8e5m2_towards_zero(values) if towards_zero else (
                _small_float(_single(values), mantissa=2, least=-14, largest=57344.0)
            )  # fmt: skip
    return np.asarray(values).astype(HELD[element], copy=False)


def _single(values: Array) -> Array:
    """The values as float32 from which a narrower float is rounded as from the values themselves.

    What float32 cannot hold is rounded to odd: cut off, with the last bit set, so that it is never half-way between two
    narrower numbers (Boldo and Melquiond, *When double rounding is odd*, 2005).
    """
    array = np.asarray(values)
    if array.dtype == np.float32:
        return array
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        array = _odd_double(array)
    exact = array.astype(np.float64)
    near = exact.astype(np.float32)
    back = near.astype(np.float64)
    inexact = (back != exact) & np.isfinite(exact)
    if not np.any(inexact):
        return near
    near = np.ascontiguousarray(
        np.where(inexact & (np.abs(back) > np.abs(exact)), np.nextafter(near, np.float32(0)), near)
    )
    return np.where(inexact, (near.view(np.uint32) | np.uint32(1)).view(np.float32), near).reshape(array.shape)


def _odd_double(integers: Array) -> Array:
    """64-bit integers with those that float64 cannot hold cut off at 2^12, half of it added: rounded to odd."""
    low = integers & integers.dtype.type(0xFFF)
    far = (integers > EXACT_INTEGERS) | (integers < -EXACT_INTEGERS) if integers.dtype.kind == "i" else (
        integers > np.uint64(EXACT_INTEGERS)
    )  # fmt: skip
    odd = (integers - low) + integers.dtype.type(0x800)
    return np.where(far & (low != 0), odd, integers)


def _bf16(exact: Array, towards_zero: bool) -> Array:
    exact = np.ascontiguousarray(exact).reshape(exact.shape)
    bits = exact.view(np.uint32)
    if towards_zero:
        near = bits & np.uint32(0xFFFF0000)
    else:
        near = np.asarray(bits >> np.uint32(16))  # from here on in place: arrays are large
        near &= np.uint32(1)
        near += np.uint32(0x7FFF)
        near += bits
        near &= np.uint32(0xFFFF0000)
    retained, nan = near.view(np.float32), np.isnan(exact)
    return np.where(nan, np.float32(np.nan), retained) if np.count_nonzero(nan) else np.asarray(retained)


def _f16(exact: Array, towards_zero: bool) -> Array:
    near = exact.astype(np.float16)
    if towards_zero:
        beyond = np.abs(near.astype(np.float32)) > np.abs(exact)
        near = np.where(beyond, np.nextafter(near, np.float16(0)), near)
    return near.astype(np.float32)


def _small_float(exact: Array, mantissa: int, least: int, largest: float) -> Array:
    """Nearest even with `mantissa` bits behind the point; exponents below `least` are subnormal."""
    _, exponent = np.frexp(exact)
    grain = np.exp2((np.maximum(exponent - 1, least) - mantissa).astype(np.float32))
    near = np.rint(exact / grain) * grain
    return np.where(np.isnan(exact), exact, np.clip(near, -largest, largest)).astype(np.float32)


def _f8e5m2_towards_zero(values: Array) -> Array:
    """The upper half of the f16 that is cut off (`cvt.rz.f16.f32`): infinity stays infinity."""
    half = _f16(_single(values), towards_zero=True).astype(np.float16)
    bits = np.ascontiguousarray(half).view(np.uint16).reshape(half.shape) & np.uint16(0xFF00)
    return np.where(np.isnan(half), np.float32(np.nan), bits.view(np.float16).astype(np.float32))


def cast(values: Array, element: str, attributes: Mapping[str, Any], source: str) -> Array:
    """`values` of the type `source` as `element`. attributes: signed, rounding (`twill.tile.vocabulary`)."""
    signed = attributes.get("signed", 1)
    floating = source.startswith(("f", "bf"))
    if element.startswith(("f", "bf")):
        exact = values if floating or signed else unsigned(values)
        if source == "i1":
            exact = np.where(values, -1 if signed else 1, 0).astype(np.int32)
        return rounded(exact, element, towards_zero=attributes.get("rounding") == "rtz")
    if element == "i1":
        return np.asarray(values) != 0 if floating else (np.asarray(values) & 1).astype(np.bool_)
    if floating:
        return _to_integer(np.asarray(values), element, bool(signed), source)
    if source == "i1":
        # Sign extension of one bit gives 0 and -1; Triton spells a conversion of truth values unsigned.
        return (-np.asarray(values, HELD[element])) if signed else np.asarray(values).astype(HELD[element])
    held = HELD[source](values) if isinstance(values, int) else values
    return (held if signed else unsigned(held)).astype(HELD[element])


def _to_integer(values: Array, element: str, signed: bool, source: str) -> Array:
    """Towards zero, saturating; 8-bit results are the low bits of 16-bit ones (`cvt.rzi.s16.f32`).

    NaN becomes 0, or, as a 64-bit integer and from f64, the largest power of two of the instruction's width.
    """
    width = max(16, int(element[1:]))
    low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
    wide = np.dtype(f"{'' if signed else 'u'}int{width}")
    whole = np.trunc(values)
    inside = (whole >= float(low)) & (whole < float(high))  # powers of two, which every float type holds
    integers = np.where(inside, whole, 0).astype(wide)
    if not np.all(inside):
        integers = np.where(whole >= float(high), wide.type(high - 1), integers)
        integers = np.where(whole < float(low), wide.type(low), integers)
        strange = 1 << (width - 1) if source == "f64" or width == 64 else 0
        integers = np.where(np.isnan(whole), np.array(strange, np.uint64).astype(wide), integers)
    return integers.astype(HELD[element])


def bitcast(values: Array, source: str, element: str) -> Array:
    """The same bits as another type."""
    return values if source == element else from_bits(to_bits(values, source), element)


def to_bits(values: Array, element: str) -> Array:
    """The bits, as an array of unsigned integers."""
    if element == "bf16":
        return (_contiguous(values, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if element == "f16":
        return _contiguous(values, np.float16).view(np.uint16)
    if element == "f8e5m2":
        return (_contiguous(values, np.float16).view(np.uint16) >> np.uint16(8)).astype(np.uint8)
    if element == "f8e4m3":
        return _encode_f8e4m3(values)
    array = _contiguous(values, HELD[element])
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize])


def _contiguous(values: Array, dtype: Any) -> Array:
    return np.ascontiguousarray(values, dtype).reshape(np.shape(values))


def _encode_f8e4m3(values: Array) -> Array:
    """Bits 14 to 7 of an f16 whose exponent is 8 less (bias 7 for 15) and whose sign is put back; NaN is 0x7f."""
    half = _contiguous(np.asarray(values, np.float32) * np.float32(2.0**-8), np.float16)
    bits = half.view(np.uint16)
    code = ((bits >> np.uint16(8)) & np.uint16(0x80)) | ((bits >> np.uint16(7)) & np.uint16(0x7F))
    return np.where(np.isnan(half), (code & np.uint16(0x80)) | np.uint16(0x7F), code).astype(np.uint8)


def from_bits(bits: Array, element: str) -> Array:
    """Values with these bits, an array of unsigned integers."""
    if element == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if element == "f16":
        return bits.view(np.float16).astype(np.float32)
    if element == "f8e5m2":
        return (bits.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float32)
    if element == "f8e4m3":
        wide = bits.astype(np.uint16)
        half = ((wide & np.uint16(0x80)) << np.uint16(8)) | ((wide & np.uint16(0x7F)) << np.uint16(7))
        numbers = half.view(np.float16).astype(np.float32) * np.float32(2.0**8)
        return np.where((bits & np.uint8(0x7F)) == 0x7F, np.float32(np.nan), numbers)
    return bits.view(HELD[element])
