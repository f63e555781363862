"""Integers known at translation are computed as the GPU would; nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twill.tile.fold import fold, identity, wrap

INT32 = st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize(
    ("kind", "operands", "attributes", "element", "wanted"),
    [
        ("add", (2**31 - 1, 1), {}, "i32", -(2**31)),
        ("div", (-7, 2), {"signed": 1}, "i32", -3),
        ("rem", (-7, 2), {"signed": 1}, "i32", -1),
        ("div", (7, 0), {"signed": 1}, "i32", None),
        ("div", (-7, 2), {"signed": 0}, "i32", None),
        ("max", (-7, 2), {"signed": 1}, "i32", 2),
        ("cast", (300,), {"signed": 1}, "i8", 44),
        ("xor", (1, 1), {}, "i1", 0),
        ("add", (0.5, 1.0), {}, "f32", None),
        ("exp2", (3,), {}, "i32", None),
    ],
)
def test_fold(kind: str, operands: tuple[Any, ...], attributes: dict[str, int], element: str, wanted: object) -> None:
    assert fold(kind, operands, attributes, element) == wanted


@given(INT32, INT32.filter(bool))
def test_quotient_and_remainder_make_the_dividend_again(a: int, b: int) -> None:
    quotient = fold("div", (a, b), {"signed": 1}, "i64")
    remainder = fold("rem", (a, b), {"signed": 1}, "i64")
    assert quotient is not None
    assert remainder is not None
    assert quotient * b + remainder == a
    assert abs(remainder) < abs(b)
    assert remainder == 0 or (remainder < 0) == (a < 0)


@given(st.integers(), st.sampled_from([8, 16, 32, 64]))
def test_wrapped_values_fit_and_are_congruent(value: int, bits: int) -> None:
    assert -(2 ** (bits - 1)) <= wrap(value, bits) < 2 ** (bits - 1)
    assert (wrap(value, bits) - value) % 2**bits == 0


@pytest.mark.parametrize(
    ("kind", "operands", "element", "wanted"),
    [
        ("add", (None, 0), "i32", 0),
        ("add", (0, None), "i32", 1),
        ("sub", (None, 0), "i32", 0),
        ("sub", (0, None), "i32", None),
        ("mul", (1, None), "i64", 1),
        ("div", (None, 1), "i32", 0),
        ("div", (1, None), "i32", None),
        ("add", (None, None), "i32", None),
        ("add", (None, 0.0), "f32", None),
        ("max", (None, 0), "i32", None),
    ],
)
def test_operations_that_return_an_operand(kind: str, operands: Any, element: str, wanted: int | None) -> None:
    assert identity(kind, operands, element) == wanted
