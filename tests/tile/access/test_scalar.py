"""Promises of `twill.tile.access.scalar`: equal scalars are one symbol, and what is known of it is true."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from twill.tile.access.scalar import Fact, SymbolicScalars
from twill.tile.affine import Polynomial
from twill.tile.program import Op, TileType

quick = settings(max_examples=50)
I32, I64 = TileType((), "i32"), TileType((), "i64")
M, N = 0, 1


class Computer:
    """Computes scalar operations, numbering their results from 100."""

    def __init__(self) -> None:
        self.scalars = SymbolicScalars()
        self.numbers: Iterator[int] = itertools.count(100)
        self.m = self.scalars.declare(M, Fact(16, nonnegative=True, fixed=True))
        self.n = self.scalars.declare(N, Fact(8))

    def op(self, kind: str, *operands: Polynomial, result: TileType = I32, **attributes: int) -> Polynomial:
        op = Op(0, kind, (), (next(self.numbers),), tuple(attributes.items()), 1, "")
        return self.scalars.compute(op, operands, [I32] * len(operands), result)


def test_equal_expressions_are_one_symbol() -> None:
    c = Computer()
    first = c.op("div", c.m + c.n + 3, Polynomial.constant_of(64), signed=1)
    assert first == Polynomial.symbol(100)
    assert c.op("div", 3 + c.n + c.m, Polynomial.constant_of(64), signed=1) == first
    assert c.op("div", c.m + c.n + 4, Polynomial.constant_of(64), signed=1) != first
    assert c.op("div", c.m + c.n + 3, Polynomial.constant_of(64), signed=0) != first
    assert c.op("min", first, c.n) == c.op("min", c.n, first)
    assert c.op("program_id", axis=0) == c.op("program_id", axis=0) != c.op("program_id", axis=1)


def test_polynomials_are_computed_with() -> None:
    c = Computer()
    assert c.op("sub", c.op("mul", c.m, c.op("add", c.n, c.m)), c.n) == c.m * c.n + c.m * c.m - c.n
    assert c.op("shl", c.m, Polynomial.constant_of(4)) == c.m * 16
    assert c.op("cast", c.n, result=I64, signed=1) == c.n
    assert c.op("cast", c.n, result=I64, signed=0) != c.n  # may be negative
    assert c.op("cast", c.m, result=I64, signed=0) == c.m
    assert c.op("cast", c.n, result=TileType((), "i8"), signed=1) != c.n


def test_divisions_that_come_out_even_are_polynomials() -> None:
    c = Computer()
    assert c.op("div", c.m * 128 + 256, Polynomial.constant_of(128), signed=1) == c.m + 2
    assert c.op("rem", c.m * 128 + 256, Polynomial.constant_of(128), signed=1) == Polynomial()
    assert c.op("div", c.m * c.n, c.n, signed=1) == c.m


def test_a_minimum_of_comparable_scalars_is_one_of_them() -> None:
    c = Computer()
    assert c.op("min", c.n, c.n + 3) == c.n
    assert c.op("max", c.n, c.n + c.m) == c.n + c.m


def test_symbols_met_in_a_scope_do_not_leave_it() -> None:
    c = Computer()
    before = c.op("div", c.m, c.n)
    with c.scalars.scope():
        assert c.op("div", c.m, c.n) == before
        inside = c.op("div", c.n, c.m)
        assert c.op("div", c.n, c.m) == inside
    assert c.op("div", c.n, c.m) != inside
    assert c.op("div", c.m, c.n) == before


def test_what_a_launch_fixes() -> None:
    c = Computer()
    assert c.scalars.fixed(c.m * c.m + 3)
    assert not c.scalars.fixed(c.m * c.n)
    assert c.scalars.fixed(c.op("div", c.m + 1, Polynomial.constant_of(64)))
    assert c.scalars.fixed(c.op("num_programs", axis=0))
    assert not c.scalars.fixed(c.op("program_id", axis=0))


def divide(a: int, b: int) -> int:
    """Towards zero."""
    return abs(a) // abs(b) * (1 if a * b >= 0 else -1)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "div": divide,
    "rem": lambda a, b: a - b * divide(a, b),
    "min": min,
    "max": max,
}


@quick
@given(
    st.sampled_from(sorted(OPERATIONS)), st.integers(-6, 6), st.integers(-6, 6), st.integers(0, 9), st.integers(-9, 9)
)
def test_facts_hold_for_every_value(kind: str, a: int, b: int, m: int, n: int) -> None:
    c = Computer()
    left, right = c.m * a + 16, c.n * b + c.m
    values = {M: m * 16, N: n * 8}
    if kind in ("div", "rem") and not right.evaluate(values):
        return
    result = c.op(kind, left, right, signed=1)
    value = OPERATIONS[kind](left.evaluate(values), right.evaluate(values))
    if result.symbols() <= {M, N}:
        assert result.evaluate(values) == value
        return
    assert value % result.divisor(c.scalars.divisors()) == 0
    assert value >= 0 or not c.scalars.nonnegative(result)
