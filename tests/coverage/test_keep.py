"""Promises of `twill.coverage.keep`: how near to Triton's results an output has to be."""

from __future__ import annotations

import pytest

from tests.tile_programs import Programs
from twill.coverage.keep import narrowest
from twill.tile.program import TileProgram


def product(element: str, precision: str) -> TileProgram:
    """Y = X W + 1."""
    p = Programs()
    for name in "XWY":
        p.argument(name, f"ptr:{element}")
    x, w = (p.load(name, (64, 64), element) for name in "XW")
    y = p.op("add", p.dot(x, w, precision=precision), p.constant(1.0, (64, 64), "f32"), shape=(64, 64), element="f32")
    p.store("Y", y)
    return p.done()


@pytest.mark.parametrize(
    ("element", "precision", "bytes_"),
    [("f32", "tf32", 2), ("f32", "ieee", 4), ("f32", "tf32x3", 4), ("f16", "tf32", 4)],
)
def test_products_of_tf32_have_the_digits_of_two_bytes(element: str, precision: str, bytes_: int) -> None:
    assert narrowest(product(element, precision)) == bytes_
