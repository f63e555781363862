"""Inputs of every element type: awkward ones, small integers (whose sums are exact in any order), moderate numbers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tests.triton_differences import FORMATS, encode
from tests.triton_interpreter import NUMPY

Array = Any
Kind = Literal["awkward", "small", "moderate"]

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FP8 = ("fp8e4nv", "fp8e5")
HALVES = ("fp16", "bf16")
FLOATS = (*HALVES, "fp32", "fp64")
DTYPES = ("i1", *INTEGERS, *FLOATS, *FP8)

_NUMBERS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 7.0, 127.5, 128.0, -128.5, 255.0, 256.5, 300.0, -300.0, 448.0,
    464.0, 465.0, 480.0, 32767.0, 32768.0, -32769.0, 57344.0, 61440.0, 61441.0, 65504.0, 65519.0, 65520.0, 65536.0, 1e5,
    2147483647.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967296.0, 9.223372e18, -9.3e18, 1.8446744e19, 2e19,
    3.3895314e38, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1.1754942e-38, 1.1754944e-38, 5.9604645e-8, 6.1035156e-5,
    2.0**-9, 2.0**-10, 1.5 * 2.0**-10, 2.0**-16, 2.0**-17, 1 / 3, 3.1415927, 88.5, -87.5, -104.0, 1 + 2.0**-8,
    1 + 3 * 2.0**-9, 1 + 2.0**-11, 1 + 2.0**-24, 1 + 2.0**-8 + 2.0**-30, 12582912.5, np.inf, -np.inf, np.nan,
)  # fmt: skip
_DOUBLES = (
    *_NUMBERS,
    1e300,
    -1e300,
    5e-324,
    1e-310,
    2.0**53 + 2,
    1 + 2.0**-52,
    1 + 2.0**-8 + 2.0**-40,
    1.7976931348623157e308,
)


def inputs(dtype: str, kind: Kind, size: int, rng: np.random.Generator) -> Array:
    """A flat array in NumPy's type of `dtype` (bf16 and fp8 as bits)."""
    if dtype == "i1":
        return rng.integers(0, 2, size).astype(np.bool_)
    if dtype in INTEGERS:
        return _integers(dtype, kind, size, rng)
    if kind == "small":
        return _stored(rng.integers(-4, 5, size).astype(np.float64), dtype)
    if kind == "moderate":
        return _stored(rng.normal(0, 1, size), dtype)
    numbers = np.array(_DOUBLES if dtype == "fp64" else _NUMBERS)
    chosen = _stored(rng.choice(numbers, size), dtype)
    near = _stored(rng.normal(0, 1, size) * 2.0 ** rng.integers(-6, 7, size), dtype)
    odd = _bits(dtype, size, rng)
    return np.choose(rng.choice(3, size, p=(0.5, 0.3, 0.2)), (chosen, near, odd))


def _integers(dtype: str, kind: Kind, size: int, rng: np.random.Generator) -> Array:
    info = np.iinfo(NUMPY[dtype])
    if kind == "small":
        return rng.integers(0 if info.min == 0 else -4, 5, size).astype(NUMPY[dtype])
    if kind == "moderate":
        return rng.integers(max(info.min, -100), 101, size).astype(NUMPY[dtype])
    width = info.bits
    special = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7, 8, width - 1, width, width + 1, 31, 32,
               33, 63, 64, 100, 1 << (width - 2)]  # fmt: skip
    special += [-1, -2, -7, -8] if info.min else [1 << (width - 1)]
    chosen = np.array([special[index] for index in rng.choice(len(special), size)], object).astype(NUMPY[dtype])
    odd = np.frombuffer(rng.bytes(size * width // 8), NUMPY[dtype])
    return np.where(rng.random(size) < 0.6, chosen, odd)


def _stored(values: Array, dtype: str) -> Array:
    if dtype == "fp16":
        return encode(values, dtype).view(np.float16)
    with np.errstate(all="ignore"):
        return encode(values, dtype) if dtype in FORMATS else values.astype(NUMPY[dtype])


def _bits(dtype: str, size: int, rng: np.random.Generator) -> Array:
    """Any number at all, of random bits; NaNs are quiet, for conversions make them so."""
    kind = np.dtype(NUMPY[dtype])
    values = np.frombuffer(rng.bytes(size * kind.itemsize), kind).copy()
    if dtype in ("fp32", "fp64", "fp16"):
        values[np.isnan(values)] = np.nan
    if dtype in FORMATS and dtype != "fp16":
        form = FORMATS[dtype]
        top = len(form.numbers) + (dtype != "fp8e4nv")  # the infinity is a number too
        size_of = values & ((1 << (form.bits - 1)) - 1)
        values[size_of >= top] = form.nan
    return values
