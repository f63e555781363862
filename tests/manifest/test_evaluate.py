"""Promises of scalar expressions at a launch: they give what the kernel's own arithmetic gives, or an error."""

from __future__ import annotations

import pytest

from twill.manifest.evaluate import (
    RECIPROCAL,
    RECIPROCAL_SHIFT,
    Scalar,
    ScalarOperation,
    evaluate,
    names,
    reciprocal,
)

KINDS = (RECIPROCAL, RECIPROCAL_SHIFT)
VALUES = {"M": 7, "N": -7, "s": 0.5}


def op(kind: str, *operands: Scalar, element: str = "i32", **attributes: int | float | str) -> ScalarOperation:
    return ScalarOperation(kind, element, operands, tuple(attributes.items()))


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        (3, 3),
        ("M", 7),
        (op("add", "M", op("mul", 2, "N")), -7),
        (op("sub", "M", 1), 6),
        (op("div", "M", 2), 3),
        (op("div", "N", 2), -3),
        (op("rem", "N", 4), -3),
        (op("rem", "M", -4), 3),
        (op("min", "M", "N"), -7),
        (op("max", "M", "N"), 7),
        (op("neg", "M"), -7),
        (op("abs", "N"), 7),
        (op("and", "M", 5), 5),
        (op("or", "M", 8), 15),
        (op("xor", "M", 1), 6),
        (op("shl", "M", 4), 112),
        (op("shr", "M", 1), 3),
        (op("select", op("compare", "M", "N", element="i1", predicate="gt"), 1, 2), 1),
        (op("cast", op("mul", 2.0, "s", element="f32"), element="i64"), 1),
        (op("div", 1.0, "s", element="f32"), 2.0),
        (op("rem", -1.5, "s", element="f32"), 0.0),
    ],
)
def test_values(scalar: Scalar, value: float) -> None:
    assert evaluate(scalar, VALUES) == value


def test_what_leaves_its_type_is_an_error_not_another_number() -> None:
    assert evaluate(op("mul", 1 << 20, 1 << 20, element="i64"), {}) == 1 << 40
    with pytest.raises(OverflowError, match="beyond i32"):
        evaluate(op("mul", 1 << 20, 1 << 20), {})
    with pytest.raises(ZeroDivisionError):
        evaluate(op("div", 1, 0), {})


EDGES = (1, 2, 3, 5, 7, 24, 63, 64, 65, 641, 1000, 65535, 65536, 65537, (1 << 30) + 1, (1 << 31) - 1)


@pytest.mark.parametrize("divisor", EDGES)
def test_a_reciprocal_divides_every_grid_index_exactly_and_stays_in_64_bits(divisor: int) -> None:
    """At multiples of the divisor, beside them, and at the largest index."""
    most = (1 << 31) - 1
    for sign in (1, -1):
        factor, shift = (evaluate(op(kind, "d", element="i64"), {"d": sign * divisor}) for kind in KINDS)
        assert (factor, shift) == reciprocal(sign * divisor)
        near = {n + by for n in (0, divisor, 1000 * divisor, most // divisor * divisor, most) for by in (-1, 0, 1)}
        for number in (n for n in near if 0 <= n <= most):
            assert number * int(factor) < 1 << 63
            assert number * int(factor) >> int(shift) == number // divisor


def test_a_reciprocal_of_nothing_is_no_error() -> None:
    """A launch of no tiles has no instance that would divide by them."""
    assert reciprocal(0) == reciprocal(1)


def test_the_names_that_are_needed() -> None:
    assert list(names(op("add", "M", op("mul", 2, "N")))) == ["M", "N"]
    assert list(names(5)) == []
