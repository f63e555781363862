"""Conversions round once and saturate, as the instructions of sm_90 do; every code of a small float has its bits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.triton_differences import FORMATS, decode, encode
from twill.tile.interpret.arithmetic import apply, reduce
from twill.tile.interpret.conversions import bitcast, cast, rounded

NAMES = {"f16": "fp16", "bf16": "bf16", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5"}


@pytest.mark.parametrize("element", NAMES)
def test_every_code_of_a_small_float_has_its_bits(element: str) -> None:
    form = FORMATS[NAMES[element]]
    integer = {8: "i8", 16: "i16"}[form.bits]
    codes = np.arange(1 << form.bits).astype(form.stored)
    numbers = bitcast(codes.view(f"int{form.bits}"), integer, element)
    np.testing.assert_array_equal(numbers, decode(codes, NAMES[element]))
    back = bitcast(numbers, element, integer).view(form.stored)
    known = ~np.isnan(numbers)
    np.testing.assert_array_equal(back[known], codes[known])
    np.testing.assert_array_equal(rounded(numbers[known], element), numbers[known] if element[:2] != "f8" else (
        np.where(np.isinf(numbers[known]), np.copysign(57344, numbers[known]), numbers[known])
    ))  # fmt: skip


@pytest.mark.parametrize("element", NAMES)
def test_halves_between_two_numbers_are_rounded_to_even_from_any_type(element: str) -> None:
    form = FORMATS[NAMES[element]]
    halves = (form.numbers[1:] + form.numbers[:-1]) / 2
    values = np.concatenate([halves, np.nextafter(halves, 0), np.nextafter(halves, np.inf), -halves])
    np.testing.assert_array_equal(rounded(values, element), decode(encode(values, NAMES[element]), NAMES[element]))


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_integers_of_64_bits_are_rounded_once(element: str) -> None:
    rng = np.random.default_rng(0)
    near = (np.int64(1) << rng.integers(1, 63, 4000)) + rng.integers(-3, 4, 4000)
    shifted = near + (np.int64(1) << rng.integers(1, 55, 4000))
    values = np.concatenate([near, -near, shifted])
    wanted = decode(encode(values.astype(np.longdouble), NAMES[element]), NAMES[element])
    np.testing.assert_array_equal(rounded(values, element), wanted)


@pytest.mark.parametrize(
    ("value", "source", "element", "signed", "wanted"),
    [
        (300.0, "f32", "i8", 1, 44), (1e9, "f32", "i8", 1, -1), (-1e9, "f32", "i8", 1, 0),
        (3e9, "f32", "i32", 1, 2**31 - 1), (-(2.0**31), "f32", "i32", 1, -(2**31)),
        (-1.0, "f32", "i32", 0, 0), (3e9, "f32", "i32", 0, 3000000000 - 2**32), (np.nan, "f32", "i32", 1, 0),
        (np.nan, "f64", "i32", 1, -(2**31)), (np.nan, "f32", "i64", 1, -(2**63)), (1e30, "f32", "i64", 0, -1),
        (np.inf, "f16", "i16", 1, 32767), (-0.9, "f64", "i64", 1, 0),
    ],
)  # fmt: skip
def test_floats_saturate_as_integers(value: float, source: str, element: str, signed: int, wanted: int) -> None:
    held: Any = np.float64 if source == "f64" else np.float32
    assert int(cast(np.array([value], held), element, {"signed": signed}, source)[0]) == wanted


def test_a_fused_product_and_sum_is_rounded_once() -> None:
    """1 + 2^-12 squared less 1 + 2^-11 is 2^-24, which two roundings lose."""
    one = np.array([1 + 2.0**-12], np.float32)
    less = np.array([-1 - 2.0**-11], np.float32)
    assert apply("fma", (one, one, less), "f32", {}, ("f32",) * 3)[0] == np.float32(2.0**-24)
    assert apply("fma", (one.astype(np.float64),) * 2 + (np.array([-1.0]),), "f64", {}, ("f64",) * 3)[0] == (
        2.0**-11 + 2.0**-24
    )  # fmt: skip
    largest = np.array([1.7e308])
    assert apply("fma", (largest, -largest, largest), "f64", {}, ("f64",) * 3)[0] == -np.inf


@pytest.mark.parametrize(("kind", "wanted"), [("max", False), ("min", True)])
def test_zero_is_greater_than_minus_zero(kind: str, wanted: bool) -> None:
    zeros = np.array([0.0, -0.0], np.float32)
    for attributes in ({}, {"propagate_nan": 1}):
        found = apply(kind, (zeros, zeros[::-1]), "f32", attributes, ("f32", "f32"))
        assert np.signbit(found).tolist() == [wanted, wanted]


@pytest.mark.parametrize("kind", ["exp2", "sqrt", "rsqrt", "floor", "ceil"])
def test_functions_that_flush_read_subnormal_numbers_as_zero(kind: str) -> None:
    small, zero = np.array([-1e-45], np.float32), np.array([-0.0], np.float32)
    found, wanted = (apply(kind, (x,), "f32", {}, ("f32",)) for x in (small, zero))
    np.testing.assert_array_equal(found, wanted)
    assert np.signbit(found) == np.signbit(wanted)
    assert apply("sqrt", (-small,), "f32", {"rounding": "rn"}, ("f32",))[0] > 0


def test_a_maximum_leaves_out_signaling_nans() -> None:
    bits = np.array([0x3F800000, 0x7F800001, 0x3F000000], np.uint32)  # 1, a signaling NaN, 0.5
    values = bits.view(np.float32)
    assert reduce(values, 0, "max", "f32", {}) == 1
    assert apply("max", (values[:2], values[1::-1]), "f32", {}, ("f32",) * 2).tolist() == [1, 1]


def test_a_choice_between_numbers_of_fp8_gives_one_of_them_as_it_is() -> None:
    """Conversions to fp8 saturate; a choice is none."""
    mask, infinite = np.array([True, False]), np.full(2, np.inf, np.float32)
    chosen = apply("select", (mask, infinite, -infinite), "f8e5m2", {}, ("i1", "f8e5m2", "f8e5m2"))
    assert chosen.tolist() == [np.inf, -np.inf]


def test_an_fma_of_f64_is_rounded_once() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 2000))
    c = -(a * b) * (1 + rng.integers(-3, 4, 2000) * 2.0 ** -rng.integers(20, 60, 2000))  # little is left of the sum
    a[::7], b[::11], c[::13] = 1e-250, 0.0, np.inf
    exact = [
        float(Fraction(x) * Fraction(y) + Fraction(z)) if np.isfinite(z) else z for x, y, z in zip(a, b, c, strict=True)
    ]
    np.testing.assert_array_equal(apply("fma", (a, b, c), "f64", {}, ("f64",) * 3), exact)


def test_an_fma_says_which_of_the_two_it_subtracts() -> None:
    three, two, one = (np.array([number], np.float32) for number in (3, 2, 1))
    found = [apply("fma", (three, two, one), "bf16", {"minus": part}, ("bf16",) * 3) for part in ("product", "summand")]
    assert [float(value[0]) for value in found] == [-5.0, 5.0]
