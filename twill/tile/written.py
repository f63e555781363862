"""A polynomial over scalars as operations of a tile program."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twill.tile.affine import Polynomial

WriteI32 = Callable[[str, tuple[int, ...], Mapping[str, int]], int]
"""Makes an operation with these operands and attributes, whose result is an i32 scalar; gives back the result."""


def written(polynomial: Polynomial, write: WriteI32) -> int:
    """The value of a polynomial over i32 scalars, made by constants, multiplications and additions."""
    total: int | None = None
    for monomial, coefficient in polynomial.terms:
        factors = [symbol for symbol, power in monomial for _ in range(power)]
        if coefficient != 1 or not factors:
            factors.append(write("constant", (), {"value": coefficient}))
        term = factors[0]
        for factor in factors[1:]:
            term = write("mul", (term, factor), {})
        total = term if total is None else write("add", (total, term), {})
    return write("constant", (), {"value": 0}) if total is None else total
