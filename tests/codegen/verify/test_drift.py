"""Numbers that are all off by a little, one way, are found; those that are off now and then, both ways, are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.warp_programs import plain_gemm
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.drift import LAST_PLACE, drift, drifting
from twill.ptx.formats import decode, encode

FORMATS = {"f16": "f16", "bf16": "bf16", "f8e4m3": "e4m3", "f8e5m2": "e5m2"}


def stored(numbers: Any, element: str, rounding: str = "rn") -> Any:
    return decode(encode(numbers, FORMATS[element], rounding, saturate=True), FORMATS[element])


def exact(seed: int = 1, size: int = 4000) -> Any:
    return np.random.default_rng(seed).standard_normal(size)


@pytest.mark.parametrize("element", LAST_PLACE)
def test_rounding_towards_zero_is_found_and_another_order_of_additions_is_not(element: str) -> None:
    numbers = exact()
    wanted = stored(numbers, element)
    seen = drift(stored(numbers, element, "rz"), wanted, element)
    assert seen.real and seen.mean == pytest.approx(-0.5, abs=0.1)
    noise = 1 + 1e-5 * np.random.default_rng(2).standard_normal(numbers.size)
    assert not drift(stored(numbers * noise, element), wanted, element).real
    assert not drift(wanted, wanted, element).real


@pytest.mark.parametrize("factor", [1.005, 0.995])
def test_half_a_percent_is_found_in_bf16(factor: float) -> None:
    numbers = exact()
    seen = drift(stored(factor * numbers, "bf16"), stored(numbers, "bf16"), "bf16")
    assert seen.real and np.sign(seen.mean) == np.sign(factor - 1)


def test_a_few_numbers_that_are_far_off_are_no_drift() -> None:
    wanted = stored(exact(), "bf16")
    ours = wanted.copy()
    ours[::100] *= 1.5
    assert not drift(ours, wanted, "bf16").real


def test_zeros_and_what_is_not_finite_say_nothing() -> None:
    wanted = np.array([0.0, np.inf, np.nan, 1.0], np.float32)
    assert drift(np.array([5.0, 1.0, 1.0, 1.0], np.float32), wanted, "bf16") == drift(wanted[3:], wanted[3:], "bf16")
    assert not drift(wanted[:3], wanted[:3], "bf16").real


def test_a_violation_names_the_tensor_and_only_what_was_written_counts() -> None:
    tile = plain_gemm()
    before, numbers = stored(exact(3), "bf16"), exact()
    wanted = stored(numbers, "bf16")
    ours = stored(numbers, "bf16", "rz")
    launch = CheckedLaunch((1, 1), {"c_desc": before}, {}, text="M = 16")
    (found,) = drifting(tile, launch, {"c_desc": ours}, {"c_desc": wanted})
    assert found.rule == "values" and found.line and "c_desc is 0.4" in found.message
    untouched = replace(launch, arrays={"c_desc": wanted})
    assert not list(drifting(tile, untouched, {"c_desc": ours}, {"c_desc": wanted}))
