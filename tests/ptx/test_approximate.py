"""The fast functions: special cases of the PTX ISA, and results rounded to nearest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from twill.ptx.approximate import ERROR, GROSS, approximate, gross

INF, NAN, TINY = math.inf, math.nan, 2.0**-140
CASES = (-INF, -TINY, -0.0, 0.0, TINY, INF, NAN)


def same(left: Any, right: Any) -> bool:
    """Bit for bit, any NaN for any other."""
    left, right = np.asarray(left, np.float32), np.asarray(right, np.float32)
    both = np.isnan(left) & np.isnan(right)
    return bool((both | (left.view(np.uint32) == right.view(np.uint32))).all())


@pytest.mark.parametrize(
    "name, flushed",
    [
        ("ex2", (0.0, 1.0, 1.0, 1.0, 1.0, INF, NAN)),
        ("lg2", (NAN, -INF, -INF, -INF, -INF, INF, NAN)),
        ("rcp", (-0.0, -INF, -INF, INF, INF, 0.0, NAN)),
        ("sqrt", (NAN, -0.0, -0.0, 0.0, 0.0, INF, NAN)),
        ("rsqrt", (NAN, -INF, -INF, INF, INF, 0.0, NAN)),
        ("sin", (NAN, -0.0, -0.0, 0.0, 0.0, NAN, NAN)),
        ("cos", (NAN, 1.0, 1.0, 1.0, 1.0, NAN, NAN)),
        ("tanh", (-1.0, -0.0, -0.0, 0.0, 0.0, 1.0, NAN)),
    ],
)
def test_special_operands_give_what_the_isa_lists(name: str, flushed: tuple[float, ...]) -> None:
    assert same(approximate(name, np.array(CASES, np.float32), True), flushed)


def test_without_ftz_subnormal_operands_count() -> None:
    given = np.array([TINY, -TINY], np.float32)
    assert same(approximate("lg2", given, False), [-140.0, NAN])
    assert same(approximate("sqrt", given, False), [2.0**-70, NAN])
    assert same(approximate("rsqrt", given, False), [2.0**70, NAN])
    assert same(approximate("tanh", given, False), given)
    assert same(approximate("ex2", np.array([-140.0], np.float32), False), [TINY])
    assert same(approximate("ex2", np.array([-140.0], np.float32), True), [0.0])


@pytest.mark.parametrize(
    "name, given, wanted",
    [("ex2", 10.0, 1024.0), ("lg2", 8.0, 3.0), ("rcp", 4.0, 0.25), ("sqrt", 2.25, 1.5), ("rsqrt", 16.0, 0.25),
     ("sin", 0.5, math.sin(0.5)), ("cos", 0.5, math.cos(0.5)), ("tanh", 0.5, math.tanh(0.5)), ("ex2", 200.0, INF)],
)  # fmt: skip
def test_results_are_the_true_ones_rounded(name: str, given: float, wanted: float) -> None:
    assert same(approximate(name, np.array([given], np.float32), True), [np.float32(wanted)])


def test_every_function_has_a_documented_error() -> None:
    assert set(ERROR) == {"ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh"}
    for name in ERROR:
        approximate(name, np.ones(1, np.float32), False)
    assert all(0 < error.size <= 1 for error in ERROR.values())


def test_only_float32_is_taken() -> None:
    with pytest.raises(TypeError, match="float32"):
        approximate("ex2", np.ones(1), True)


@pytest.mark.parametrize("name", GROSS)
def test_gross_functions_of_f64_are_right_in_the_upper_half(name: str) -> None:
    given = np.random.default_rng(0).uniform(1e-200, 1e200, 1000)
    found = gross(name, given)
    assert not (found.view(np.uint64) & np.uint64(0xFFFFFFFF)).any()
    exact = 1 / (given if name == "rcp" else np.sqrt(given))
    assert (np.abs(found / exact - 1) < 2.0**-19).all()


def test_gross_functions_of_f64_flush_subnormal_numbers() -> None:
    tiny = 2.0**-1050
    given = np.array([-INF, -tiny, -0.0, 0.0, tiny, INF, NAN, 2.0**1023])
    wanted = np.array([-0.0, -INF, -INF, INF, INF, 0.0, NAN, 0.0])
    found = gross("rcp", given)
    assert np.array_equal(found, wanted, equal_nan=True) and np.array_equal(np.signbit(found), np.signbit(wanted))
    assert np.isnan(gross("rsqrt", given)[0]) and gross("rsqrt", np.array([16.0])) == 0.25
