"""Promises of scalar expressions at a launch: they give what the kernel's own arithmetic gives, or an error."""

from __future__ import annotations

import pytest

from twill.manifest.evaluate import Scalar, ScalarOperation, evaluate, names

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


def test_the_names_that_are_needed() -> None:
    assert list(names(op("add", "M", op("mul", 2, "N")))) == ["M", "N"]
    assert list(names(5)) == []
