"""Promises of `twill.tile.affine`."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twill.tile.affine import Polynomial

quick = settings(max_examples=50)
SYMBOLS = (3, 5, 8)
polynomials = st.lists(st.tuples(st.lists(st.sampled_from(SYMBOLS), max_size=3), st.integers(-6, 6)), max_size=5).map(
    lambda terms: sum(
        (math.prod((Polynomial.symbol(s) for s in symbols), start=Polynomial.constant_of(c)) for symbols, c in terms),
        start=Polynomial(),
    )
)
points = st.fixed_dictionaries({s: st.integers(-7, 7) for s in SYMBOLS})
x, y = Polynomial.symbol(3), Polynomial.symbol(5)


@quick
@given(polynomials, polynomials, points)
def test_arithmetic_agrees_with_evaluation(a: Polynomial, b: Polynomial, at: dict[int, int]) -> None:
    assert (a + b).evaluate(at) == a.evaluate(at) + b.evaluate(at)
    assert (a - b).evaluate(at) == a.evaluate(at) - b.evaluate(at)
    assert (a * b).evaluate(at) == a.evaluate(at) * b.evaluate(at)
    assert (3 - a * 2 + 1).evaluate(at) == 4 - 2 * a.evaluate(at)


@quick
@given(polynomials, polynomials, polynomials)
def test_equal_polynomials_are_one_object_of_one_hash(a: Polynomial, b: Polynomial, c: Polynomial) -> None:
    assert a * (b + c) == c * a + b * a
    assert hash(a * (b + c)) == hash(c * a + b * a)
    assert a - a == Polynomial() and not a - a


@quick
@given(polynomials, polynomials)
def test_a_product_divides_exactly_by_its_factor(a: Polynomial, b: Polynomial) -> None:
    if b:
        assert (a * b).divide_exactly(b) == a


@quick
@given(polynomials, polynomials)
def test_division_leaves_a_remainder_that_adds_up(a: Polynomial, b: Polynomial) -> None:
    if b:
        quotient, remainder = a.divide(b)
        assert quotient * b + remainder == a


def test_inexact_division_is_refused() -> None:
    assert (x * 4 + 2).divide_exactly(Polynomial.constant_of(4)) is None
    assert (x * x + y).divide_exactly(x) is None
    assert (x * x - y * y).divide_exactly(x + y) == x - y
    with pytest.raises(ZeroDivisionError):
        x.divide(Polynomial())


@quick
@given(polynomials, polynomials, points)
def test_substitution_is_evaluation_in_steps(a: Polynomial, b: Polynomial, at: dict[int, int]) -> None:
    assert a.substitute({3: b}).evaluate(at) == a.evaluate({**at, 3: b.evaluate(at)})


def test_substitution_happens_at_once() -> None:
    assert (x + y * 2).substitute({3: y, 5: x}) == y + x * 2


@quick
@given(polynomials, st.fixed_dictionaries({s: st.integers(1, 16) for s in SYMBOLS}), points)
def test_the_divisor_divides_every_value(a: Polynomial, known: dict[int, int], at: dict[int, int]) -> None:
    value = a.evaluate({s: at[s] * known[s] for s in SYMBOLS})
    divisor = a.divisor(known)
    assert value % divisor == 0 if divisor else not a


def test_the_divisor_is_as_large_as_the_facts_allow() -> None:
    assert (x * 64 + y * x).divisor({3: 16}) == 16
    assert (x * 64).divisor({3: 16}) == 1024
    assert (x + 1).divisor({3: 16}) == 1


def test_coefficients_and_the_rest_make_the_whole() -> None:
    p = x * y * 3 + x + y * y + 7
    assert p.coefficient_of(3) == y * 3 + 1
    assert p.without(3) == y * y + 7
    assert p.constant == 7 and not p.is_constant and p.symbols() == {3, 5}
    with pytest.raises(ValueError, match="power 2"):
        p.coefficient_of(5)


def test_text_reads_like_kernel_code() -> None:
    assert (x * 64 - y * x + 2).text({3: "pid_m", 5: "stride"}) == "-pid_m*stride + 64*pid_m + 2"
    assert Polynomial().text({}) == "0"
    assert (-x).text({}) == "-%3"
