"""Number formats of PTX and their roundings, against hand-made values and NumPy's own formats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from twill.ptx.formats import FORMATS, ROUNDINGS, decode, encode, flush


def bits(kind: str, *values: int) -> Any:
    return np.array(values, FORMATS[kind].bits)


def every(kind: str) -> Any:
    """All bits of a format of at most 16; of longer ones, many."""
    form = FORMATS[kind]
    if form.width <= 16:
        return np.arange(1 << form.width).astype(form.bits)
    made = np.random.default_rng(1).integers(0, 1 << 63, 20000, np.uint64) * np.uint64(2)
    return (made >> np.uint64(64 - form.width)).astype(form.bits)


@pytest.mark.parametrize(
    "kind, given, number",
    [
        ("e4m3", 0x7E, 448.0), ("e4m3", 0x01, 2.0**-9), ("e4m3", 0x08, 2.0**-6), ("e4m3", 0x38, 1.0),
        ("e4m3", 0xBC, -1.5), ("e4m3", 0x78, 256.0), ("e5m2", 0x7B, 57344.0), ("e5m2", 0x01, 2.0**-16),
        ("e5m2", 0x3C, 1.0), ("e5m2", 0xFC, -math.inf), ("f16", 0x7BFF, 65504.0), ("f16", 0x0001, 2.0**-24),
        ("bf16", 0x3F80, 1.0), ("bf16", 0x0001, 2.0**-133), ("bf16", 0xFF80, -math.inf), ("f32", 0x40490FDB, math.pi),
        ("tf32", 0x3F801FFF, 1.0), ("tf32", 0x3F802000, 1 + 2.0**-10), ("f64", 0x4000000000000000, 2.0),
    ],
)  # fmt: skip
def test_bits_are_the_numbers_of_the_isa(kind: str, given: int, number: float) -> None:
    assert decode(bits(kind, given), kind)[0] == pytest.approx(number, rel=1e-7, abs=0)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_number_comes_back_under_every_rounding(kind: str) -> None:
    given = every(kind)
    if kind == "tf32":
        given &= np.uint32(0xFFFFE000)
    numbers = decode(given, kind)
    real = ~np.isnan(numbers) & (np.isfinite(numbers) | FORMATS[kind].infinite)
    for rounding in ROUNDINGS:
        back = encode(numbers, kind, rounding)
        assert np.array_equal(back[real], given[real]), rounding
        assert (back[np.isnan(numbers)] == FORMATS[kind].nan).all()


@pytest.mark.parametrize(
    "kind, value, rn, rz, rm, rp, rna",
    [
        # bf16 has 7 bits behind the point: 1 + 2^-8 is half way between 0x3F80 and 0x3F81.
        ("bf16", 1 + 2.0**-8, 0x3F80, 0x3F80, 0x3F80, 0x3F81, 0x3F81),
        ("bf16", 1 + 3 * 2.0**-8, 0x3F82, 0x3F81, 0x3F81, 0x3F82, 0x3F82),
        ("bf16", -1 - 2.0**-8, 0xBF80, 0xBF80, 0xBF81, 0xBF80, 0xBF81),
        ("f16", 1 + 2.0**-11 + 2.0**-20, 0x3C01, 0x3C00, 0x3C00, 0x3C01, 0x3C01),
        ("f16", 2.0**-25, 0x0000, 0x0000, 0x0000, 0x0001, 0x0001),
        ("f16", -(2.0**-26), 0x8000, 0x8000, 0x8001, 0x8000, 0x8000),
        ("f16", 65520.0, 0x7C00, 0x7BFF, 0x7BFF, 0x7C00, 0x7C00),
        ("f16", -1e9, 0xFC00, 0xFBFF, 0xFC00, 0xFBFF, 0xFC00),
        ("tf32", 1 + 2.0**-11, 0x3F800000, 0x3F800000, 0x3F800000, 0x3F802000, 0x3F802000),
        ("e4m3", 17.0, 0x58, 0x58, 0x58, 0x59, 0x59),
        ("e4m3", 19.0, 0x5A, 0x59, 0x59, 0x5A, 0x5A),
        ("f32", 1 + 2.0**-24, 0x3F800000, 0x3F800000, 0x3F800000, 0x3F800001, 0x3F800001),
        ("f32", 2.0**-150, 0, 0, 0, 1, 1),
    ],
)  # fmt: skip
def test_each_rounding_goes_where_the_isa_says(
    kind: str, value: float, rn: int, rz: int, rm: int, rp: int, rna: int
) -> None:
    given = np.array([value])
    for rounding, wanted in zip(ROUNDINGS, (rn, rz, rm, rp, rna), strict=True):
        assert encode(given, kind, rounding)[0] == wanted, rounding


def test_nearest_even_is_that_of_numpy_in_the_slow_way_too() -> None:
    numbers = decode(every("f32"), "f32")
    numbers = numbers[~np.isnan(numbers)]
    scaled = np.concatenate([numbers, np.ldexp(np.random.default_rng(2).standard_normal(20000), -20)])
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = scaled.astype(np.float16).view(np.uint16)
    finite = np.isfinite(wanted.view(np.float16))
    assert np.array_equal(encode(scaled, "f16", "rn", saturate=True)[finite], wanted[finite])
    assert np.array_equal(encode(scaled, "f16"), wanted)


def test_what_is_beyond_saturates_if_asked_and_keeps_its_sign() -> None:
    given = np.array([1e9, -1e9, math.inf, -math.inf, math.nan, 464.0, -464.5])
    assert encode(given, "e4m3", saturate=True).tolist() == [0x7E, 0xFE, 0x7E, 0xFE, 0x7F, 0x7E, 0xFE]
    assert encode(given, "e4m3").tolist() == [0x7F, 0xFF, 0x7F, 0xFF, 0x7F, 0x7E, 0xFF]
    assert encode(given[:5], "e5m2", saturate=True).tolist() == [0x7B, 0xFB, 0x7B, 0xFB, 0x7F]
    assert encode(given[:5], "f16", saturate=True).tolist() == [0x7BFF, 0xFBFF, 0x7BFF, 0xFBFF, 0x7FFF]
    assert encode(given[:5], "f16", "rz").tolist() == [0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7FFF]


def test_subnormal_numbers_are_flushed_with_their_sign() -> None:
    given = np.array([2.0**-127, -(2.0**-149), 2.0**-126, -0.0, math.inf], np.float32)
    assert flush(given).view(np.uint32).tolist() == [0, 1 << 31, 0x00800000, 1 << 31, 0x7F800000]


def test_wrong_widths_and_names_are_refused() -> None:
    with pytest.raises(TypeError, match="f16 has 16 bits"):
        decode(np.zeros(1, np.uint32), "f16")
    with pytest.raises(ValueError, match="no rounding 'up'"):
        encode(np.zeros(1), "f16", "up")
    with pytest.raises(TypeError, match="float32 or float64"):
        encode(np.zeros(1, np.int32), "f16")
    with pytest.raises(KeyError):
        encode(np.zeros(1), "e3m4")
