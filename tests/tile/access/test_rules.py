"""Promises of `twill.tile.access.rules`: symbolic tiles agree with their elements."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from twill.tile.access.rules import SymbolicStep, negative, quotient_up, symbolic
from twill.tile.access.value import EVERYWHERE, UNKNOWN_MASK, ZERO, AffineTile, IndexBound, Mask, NotAffine, Symbolic
from twill.tile.affine import Polynomial
from twill.tile.program import Op, TileType

quick = settings(max_examples=50)
N = Polynomial.symbol(0)
number = Polynomial.constant_of


def apply(
    kind: str,
    *operands: Symbolic,
    shape: tuple[int, ...],
    element: str = "i32",
    nonnegative: bool = False,
    **attributes: int | str | tuple[int, ...],
) -> Symbolic:
    op = Op(0, kind, tuple(range(len(operands))), (9,), tuple(attributes.items()), 1, "")
    shapes = tuple(operand.shape if isinstance(operand, AffineTile) else shape for operand in operands)
    return symbolic(SymbolicStep(op, operands, shapes, TileType(shape, element), lambda number: nonnegative))


def index(step: int = 1, origin: Polynomial = ZERO, extent: int = 8) -> AffineTile:
    return AffineTile((extent,), origin, (number(step),))


@quick
@given(st.integers(-20, 20), st.integers(-5, 5), st.integers(-20, 20))
def test_a_bound_is_where_the_comparison_holds(constant: int, step: int, n: int) -> None:
    for origin in (number(constant), N * step + constant * step, N + constant):
        mask = negative(origin, (number(step),))
        for i in range(-30, 30) if mask.complete else ():
            holds = origin.evaluate({0: n}) + step * i < 0
            inside = all(
                i < b.limit.evaluate({0: n}) if b.side == "upper" else i >= b.limit.evaluate({0: n})
                for b in mask.bounds
            )
            assert holds == inside


def test_which_comparisons_are_bounds() -> None:
    assert negative(number(-3), (ZERO,)) == EVERYWHERE
    assert negative(number(3), (ZERO,)) == UNKNOWN_MASK
    assert negative(N, (number(2),)) == UNKNOWN_MASK  # i < -N / 2 is no polynomial
    assert negative(-N, (N,)) == UNKNOWN_MASK  # the sign of the step is unknown
    assert negative(-N, (number(1), number(1))) == UNKNOWN_MASK
    assert negative(N * -2, (number(2), ZERO)) == Mask((IndexBound(0, "upper", N),), True)


def test_every_predicate_in_both_operand_orders() -> None:
    limit = AffineTile((8,), N, (ZERO,))
    for predicate, left, right, bound in (
        ("lt", index(), limit, IndexBound(0, "upper", N)),
        ("le", index(), limit, IndexBound(0, "upper", N + 1)),
        ("gt", index(), limit, IndexBound(0, "lower", N + 1)),
        ("ge", index(), limit, IndexBound(0, "lower", N)),
        ("gt", limit, index(), IndexBound(0, "upper", N)),
        ("le", limit, index(), IndexBound(0, "lower", N)),
    ):
        mask = apply("compare", left, right, shape=(8,), element="i1", predicate=predicate, signed=1)
        assert mask == Mask((bound,), True)
    assert apply("compare", index(), limit, shape=(8,), element="i1", predicate="eq", signed=1) == UNKNOWN_MASK
    assert apply("compare", index(), limit, shape=(8,), element="i1", predicate="lt", signed=0) == UNKNOWN_MASK


def test_a_conjunction_keeps_the_bounds_of_both_sides() -> None:
    low, high = Mask((IndexBound(0, "lower", N),), True), Mask((IndexBound(0, "upper", N),), True)
    assert apply("and", low, high, shape=(8,), element="i1") == Mask((*low.bounds, *high.bounds), True)
    assert apply("and", low, UNKNOWN_MASK, shape=(8,), element="i1") == Mask(low.bounds, False)
    assert apply("and", low, NotAffine(3, "", ""), shape=(8,), element="i1") == Mask(low.bounds, False)
    assert apply("or", low, high, shape=(8,), element="i1") == UNKNOWN_MASK


def is_term(form: object) -> bool:
    """Whether a form is a tile of integers of its own, and nothing else is known of it."""
    return isinstance(form, AffineTile) and len(form.terms) == 1 and not form.origin and not any(form.steps)


def test_views_move_axes() -> None:
    row = index(3, N)
    column = apply("expand_dims", row, shape=(8, 1), axis=1)
    assert column == AffineTile((8, 1), N, (number(3), ZERO))
    tile = apply("broadcast", column, shape=(8, 4))
    assert apply("transpose", tile, shape=(4, 8), order=(1, 0)) == AffineTile((4, 8), N, (ZERO, number(3)))
    assert apply("reshape", column, shape=(1, 8)) == AffineTile((1, 8), N, (ZERO, number(3)))
    assert is_term(apply("reshape", row, shape=(2, 4)))
    assert apply("splat", AffineTile((), N, ()), shape=(8,)) == AffineTile((8,), N, (ZERO,))


def test_products_need_a_scalar_factor() -> None:
    factor = AffineTile((8,), N, (ZERO,))
    for left, right in ((index(2, number(1)), factor), (factor, index(2, number(1)))):
        assert apply("mul", left, right, shape=(8,)) == AffineTile((8,), N, (N * 2,))
    assert apply("shl", index(3), AffineTile((8,), number(2), (ZERO,)), shape=(8,)) == index(12)
    assert is_term(apply("mul", index(), index(), shape=(8,)))
    assert is_term(apply("shl", index(), index(), shape=(8,)))


def test_an_index_that_wraps_around_or_is_clipped_is_itself_within_bounds() -> None:
    limit = AffineTile((8,), N, (ZERO,))
    below, from_zero = IndexBound(0, "upper", N), IndexBound(0, "lower", ZERO)
    assert apply("rem", index(), limit, shape=(8,)) == replace(index(), within=frozenset({below, from_zero}))
    assert apply("min", limit, index(), shape=(8,)) == replace(index(), within=frozenset({replace(below, limit=N + 1)}))
    assert apply("max", index(), limit, shape=(8,)) == replace(index(), within=frozenset({IndexBound(0, "lower", N)}))
    assert apply("select", Mask((below,), True), index(), limit, shape=(8,)) == replace(
        index(), within=frozenset({below})
    )
    for kind in ("rem", "min", "max"):
        assert is_term(apply(kind, index(), index(2), shape=(8,)))


@quick
@given(st.integers(1, 16), st.integers(0, 40), st.integers(0, 3), st.integers(0, 9))
def test_quotients_and_remainders_by_constants_are_exact_where_they_are_affine(
    divisor: int, constant: int, step: int, n: int
) -> None:
    by, divided = AffineTile((8,), number(divisor), (ZERO,)), index(step, N * divisor + constant)
    for place, kind in enumerate(("div", "rem")):
        made = apply(kind, divided, by, shape=(8,), nonnegative=True, signed=1)
        assert isinstance(made, AffineTile)
        if not made.terms and not made.within:
            values = [made.origin.evaluate({0: n}) + i * made.steps[0].evaluate({0: n}) for i in range(8)]
            assert values == [divmod(n * divisor + constant + i * step, divisor)[place] for i in range(8)]


def test_which_quotients_are_affine() -> None:
    by = AffineTile((8,), number(8), (ZERO,))
    assert apply("div", index(1, N * 8), by, shape=(8,), nonnegative=True) == index(0, N)  # the same for all
    assert apply("rem", index(1, N * 8), by, shape=(8,), nonnegative=True) == index()
    assert apply("div", index(16, N * 8 + 3), by, shape=(8,), nonnegative=True) == index(2, N)
    assert is_term(apply("div", index(1, N * 8 + 1), by, shape=(8,), nonnegative=True))  # the last one is in the next
    assert is_term(apply("div", index(1, N * 4), by, shape=(8,), nonnegative=True))
    assert is_term(apply("div", index(1, N * 8), by, shape=(8,)))  # a quotient of -1 is 0 in Triton
    assert is_term(apply("div", index(), AffineTile((8,), N, (ZERO,)), shape=(8,), nonnegative=True))


def test_what_is_not_affine_is_a_term_of_sums_and_products_with_it() -> None:
    wrapped = apply("rem", index(), index(2), shape=(8,))
    assert isinstance(wrapped, AffineTile) and is_term(wrapped)
    (term,) = wrapped.terms
    twice = apply("add", wrapped, wrapped, shape=(8,))
    assert twice == replace(wrapped, terms=(replace(term, scale=number(2)),))
    assert apply("sub", twice, wrapped, shape=(8,)) == wrapped
    assert apply("sub", wrapped, wrapped, shape=(8,)) == replace(wrapped, terms=())
    moved = apply("add", wrapped, index(3, N), shape=(8,))
    assert moved == replace(index(3, N), terms=(term,))
    assert apply("mul", AffineTile((8,), N, (ZERO,)), moved, shape=(8,)) == replace(
        index(1, N * N), steps=(N * 3,), terms=(replace(term, scale=N),)
    )
    column = apply("expand_dims", wrapped, shape=(8, 1), axis=1)
    assert apply("broadcast", column, shape=(8, 4)).terms == (term,)  # type: ignore[union-attr]


def test_nothing_is_said_of_where_a_term_is_within_bounds() -> None:
    wrapped, limit = apply("rem", index(), index(2), shape=(8,)), AffineTile((8,), N, (ZERO,))
    assert apply("compare", wrapped, limit, shape=(8,), element="i1", predicate="lt", signed=1) == UNKNOWN_MASK
    for kind in ("rem", "min", "max"):
        assert is_term(apply(kind, wrapped, limit, shape=(8,)))


def test_narrow_integers_wrap_and_so_are_not_followed() -> None:
    assert apply("cast", index(), shape=(8,), element="i64", signed=1) == index()
    assert is_term(apply("cast", index(), shape=(8,), element="i8", signed=1))


def test_quotients_round_up() -> None:
    assert quotient_up(number(7), 2) == number(4)
    assert quotient_up(number(-7), 2) == number(-3)
    assert quotient_up(N * 4, 2) == N * 2
    assert quotient_up(N, 2) is None
