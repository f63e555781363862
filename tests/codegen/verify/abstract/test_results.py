"""Promises of comparing results: as exact as the program's own roundings allow, in each element and in all of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden_schedules import Example, kernel
from twill.codegen.verify.abstract.results import CHUNK, difference
from twill.codegen.verify.abstract.rounding import narrowed_for_mmas
from twill.tile.interpret.arithmetic import Array, rounded

SIZE = 64 * CHUNK


def made(element: str) -> tuple[Array, Array]:
    """A tensor before it is rounded, and what it is."""
    exact = np.random.default_rng(3).standard_normal(SIZE).astype(np.float32)
    return exact, rounded(exact, element)


def shaken(exact: Array, element: str, by: float = 2.0**-22) -> Array:
    noise = np.random.default_rng(4).uniform(-by, by, SIZE).astype(np.float32)
    return rounded(exact * (1 + noise), element)


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f8e4m3", "f8e5m2"])
def test_what_is_shaken_otherwise_is_the_same(element: str) -> None:
    exact, theirs = made(element)
    noise = np.random.default_rng(5).uniform(-(2.0**-22), 2.0**-22, SIZE).astype(np.float32)
    ours = rounded(exact * (1 + noise), element)
    assert difference(ours, theirs, shaken(exact, element), element) == ""


@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
def test_half_a_percent_in_all_elements_is_found(element: str) -> None:
    exact, theirs = made(element)
    assert difference(rounded(exact * np.float32(1.005), element), theirs, shaken(exact, element), element)


def test_half_a_percent_is_found_as_a_scale_where_each_element_may_be_off_by_as_much() -> None:
    exact, theirs = made("bf16")
    loose = shaken(exact, "bf16", by=2.0**-6)
    assert "times as large" in difference(rounded(exact * np.float32(1.005), "bf16"), theirs, loose, "bf16")


def test_one_rounding_more_is_found_in_the_mean() -> None:
    """No element is off by more than a unit of its type."""
    exact, theirs = made("bf16")
    once_more = rounded(rounded(exact * np.float32(3.0), "bf16") / np.float32(3.0), "bf16")
    assert "in the mean" in difference(once_more, theirs, shaken(exact, "bf16"), "bf16")


def shifted(times: float) -> Array:
    """A tensor of ones, moved up and down in turn by so many times what shaking moves it."""
    signs = np.where(np.arange(SIZE) % 2 == 0, 1.0, -1.0)
    return (1.0 + times * 2.0**-12 * signs).astype(np.float32)


@pytest.mark.parametrize(("times", "found"), [(7.0, False), (9.0, True)])
def test_an_element_may_be_off_by_eight_times_what_its_chunk_was_shaken(times: float, found: bool) -> None:
    ours = shifted(0.0)
    ours[1000] = 1.0 + times * 2.0**-12
    said = difference(ours, shifted(0.0), shifted(1.0), "f32")
    assert said.startswith("1 of 4096") == found and bool(said) == found


@pytest.mark.parametrize(("times", "found"), [(1.2, False), (1.3, True)])
def test_all_elements_may_be_off_by_a_quarter_more_than_they_were_shaken(times: float, found: bool) -> None:
    said = difference(shifted(times), shifted(0.0), shifted(1.0), "f32")
    assert ("in the mean" in said) == found and bool(said) == found


def test_one_wrong_element_is_found() -> None:
    exact, theirs = made("bf16")
    ours = theirs.copy()
    ours[1000] = rounded(np.float32(ours[1000] * 1.02), "bf16")
    assert difference(ours, theirs, shaken(exact, "bf16"), "bf16").startswith("1 of 4096 elements, first 1000")


def test_small_neighbourhoods_are_held_to_their_own_size() -> None:
    exact, _ = made("f32")
    exact[: SIZE // 2] *= np.float32(1e-6)
    ours = exact.copy()
    ours[3] += np.float32(1e-10)
    assert difference(ours, exact, shaken(exact, "f32"), "f32").startswith("1 of")


def test_nan_and_infinities_are_where_they_are() -> None:
    exact, theirs = made("f32")
    theirs[5], theirs[6] = np.nan, np.inf
    assert difference(theirs.copy(), theirs, theirs, "f32") == ""
    for place, other in ((5, 1.0), (6, -np.inf), (7, np.nan)):
        ours = theirs.copy()
        ours[place] = other
        assert difference(ours, theirs, shaken(exact, "f32"), "f32").startswith("1 of")


def test_integers_are_the_same_or_not() -> None:
    theirs = np.arange(100, dtype=np.int32)
    assert difference(theirs.copy(), theirs, theirs + 1, "i32") == ""
    assert difference(theirs + 1, theirs, theirs + 1, "i32").startswith("100 of 100")


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(
    ("file", "spec", "narrowed"),
    [("attention", "causal", 2), ("gemm", "bf16", 0), ("layer_norm", "bf16", 0), ("attention_backward", "full", 2)],
)
def test_what_is_narrowed_for_products_is_known(file: str, spec: str, narrowed: int) -> None:
    """P of both loops as they were written, P and dS; results that are stored are not."""
    program = kernel(Example(f"examples/{file}.py", spec)).program
    assert len(narrowed_for_mmas(program.original or program)) == narrowed


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_what_is_lost_below_the_smallest_normal_numbers_is_no_difference(element: str) -> None:
    """A sigmoid of -90 is 8e-40, which a fast quotient gives as 0; times -90 that is 0 instead of -7e-38, where all
    neighbours are 0."""
    theirs = np.zeros(CHUNK, np.float32)
    theirs[7] = rounded(np.array([-7e-38], np.float32), element)[0]
    zeros = np.zeros(CHUNK, np.float32)
    assert difference(zeros, theirs, theirs, element) == ""
    theirs[7] = rounded(np.array([-7e-34], np.float32), element)[0]
    assert difference(zeros, theirs, theirs, element)
