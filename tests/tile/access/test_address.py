"""Promises of `twill.tile.access.address`: an address is taken apart without changing it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from twill.tile.access.address import address_of_block, address_of_tile, counted_down, tightest
from twill.tile.access.value import EVERYWHERE, AffineTile, DescriptorWindow, IndexBound, Mask
from twill.tile.affine import Polynomial

quick = settings(max_examples=50)
PID, BATCH, K, STRIDE, ROWS = range(5)
FIXED = {STRIDE, ROWS}
pid, batch, k, stride, rows = map(Polynomial.symbol, range(5))
ZERO, ONE = Polynomial(), Polynomial.constant_of(1)

factors = st.sampled_from([pid, batch, k, stride, rows, ONE])
terms = st.builds(lambda c, a, b: a * b * c, st.integers(-8, 8), factors, factors)
sums = st.lists(terms, max_size=4).map(lambda parts: sum(parts, start=ZERO))
steps = st.sampled_from([ZERO, ONE, stride, stride * 2, Polynomial.constant_of(64), Polynomial.constant_of(-3)])
tiles = st.builds(lambda origin, a, b: AffineTile((4, 8), origin, (a, b), "X"), sums, steps, steps)
bounds = st.builds(IndexBound, st.integers(0, 1), st.sampled_from(["lower", "upper"]), sums)
masks = st.builds(lambda found, complete: Mask(tuple(found), complete), st.lists(bounds, max_size=3), st.booleans())
points = st.fixed_dictionaries({symbol: st.integers(-9, 9) for symbol in range(5)})


def fixed(polynomial: Polynomial) -> bool:
    return polynomial.symbols() <= FIXED


@quick
@given(tiles, masks, points)
def test_every_element_keeps_its_address(tile: AffineTile, mask: Mask, at: dict[int, int]) -> None:
    address = address_of_tile(tile, mask, fixed)
    for index in ((0, 0), (3, 0), (1, 7)):
        before = tile.origin + sum((s * i for s, i in zip(tile.steps, index, strict=True)), start=ZERO)
        parts = (axis.stride * (axis.offset + i) for axis, i in zip(address.axes, index, strict=True))
        assert (address.constant + sum(parts, start=ZERO)).evaluate(at) == before.evaluate(at)


@quick
@given(tiles, masks, points)
def test_no_bound_masks_what_the_mask_lets_through(tile: AffineTile, mask: Mask, at: dict[int, int]) -> None:
    """And if the address is complete, they mask all that the mask does."""
    address = address_of_tile(tile, mask, fixed)
    for index in ((0, 0), (3, 0), (1, 7), (2, 4)):
        allowed = all(
            index[b.axis] < b.limit.evaluate(at) if b.side == "upper" else index[b.axis] >= b.limit.evaluate(at)
            for b in mask.bounds
        )
        inside = all(
            (axis.lower is None or i + axis.offset.evaluate(at) >= axis.lower.evaluate(at))
            and (axis.upper is None or i + axis.offset.evaluate(at) < axis.upper.evaluate(at))
            for axis, i in zip(address.axes, index, strict=True)
        )
        assert inside or not allowed
        assert inside == allowed or not address.complete


def test_rows_and_columns_are_told_apart_by_their_strides() -> None:
    tile = AffineTile((4, 8), (pid * 4 + k * 3) * stride + k * 8 + batch * rows, (stride, ONE), "X")
    address = address_of_tile(tile, EVERYWHERE, fixed)
    assert [axis.offset for axis in address.axes] == [pid * 4 + k * 3, k * 8]
    assert address.constant == batch * rows  # another tensor of a batch, not another column


def test_larger_strides_are_served_first() -> None:
    tile = AffineTile((4, 8), pid * stride * 64 + k * 64, (Polynomial.constant_of(64), stride * 64), "X")
    assert [axis.offset for axis in address_of_tile(tile, EVERYWHERE, fixed).axes] == [k, pid]


def test_bounds_that_cannot_be_compared_do_not_say_all() -> None:
    mask = Mask((IndexBound(0, "upper", rows), IndexBound(0, "upper", k)), True)
    address = address_of_tile(AffineTile((4, 8), ZERO, (stride, ONE), "X"), mask, fixed)
    assert (address.axes[0].upper, address.complete) == (rows, False)


def test_a_bounded_axis_takes_what_the_mask_counts() -> None:
    tile = AffineTile((4, 8), (batch * rows + pid * 4 + 1) * stride, (stride, ONE), "X")
    mask = Mask((IndexBound(0, "upper", rows - pid * 4 - 1),), True)
    rows_of_one_batch, columns = address_of_tile(tile, mask, fixed).axes
    assert (rows_of_one_batch.offset, rows_of_one_batch.upper) == (pid * 4 + 1, rows)
    assert columns.offset == ZERO
    all_rows = Mask((IndexBound(0, "upper", batch * -1 * rows + pid * -4 - 1 + k),), True)
    whole = address_of_tile(tile, all_rows, fixed)
    assert (whole.axes[0].offset, whole.axes[0].upper) == (batch * rows + pid * 4 + 1, k)


def test_bounds_that_always_hold_are_dropped() -> None:
    mask = Mask((IndexBound(1, "upper", Polynomial.constant_of(8)), IndexBound(1, "lower", ZERO)), True)
    axis = address_of_tile(AffineTile((4, 8), ZERO, (stride, ONE), "X"), mask, fixed).axes[1]
    assert (axis.lower, axis.upper) == (None, None)


def test_the_tighter_of_comparable_bounds_is_kept() -> None:
    assert tightest([rows, rows - 3, rows + 1], -1) == (rows - 3, True)
    assert tightest([rows, rows - 3, rows + 1], 1) == (rows + 1, True)
    assert tightest([rows, k], -1) == (rows, False)
    assert tightest([], 1) == (None, True)


def test_a_descriptor_bounds_every_axis_from_zero() -> None:
    window = DescriptorWindow("X", batch * 16, (rows, k), (stride, ONE), 0.0)
    address = address_of_block(window, (4, 8), (pid * 4, ZERO))
    assert [(axis.offset, axis.lower, axis.upper) for axis in address.axes] == [(pid * 4, ZERO, rows), (ZERO, ZERO, k)]
    assert (address.base, address.constant, address.complete) == ("X", batch * 16, True)


def test_no_axis_begins_before_its_tensor_unless_a_lower_bound_holds_it() -> None:
    """A tensor map reads what lies before its first element as padding: a kernel that steps back by a fixed number of
    elements, from a start that varies, reads data there. Nothing is in front of the tensor itself, and no map begins
    there: its rows end at the first, and columns in front of a row are for threads to load."""
    back = AffineTile((4, 8), pid * stride * 4 - stride + k * 8 - 16, (stride, ONE), "X")
    columns = IndexBound(1, "upper", k * -8 + 64)
    free = address_of_tile(back, Mask((columns,), True), fixed)
    assert [axis.offset for axis in free.axes] == [pid * 4 - 1, k * 8 - 16] and free.constant == ZERO
    assert [axis.stride for axis in counted_down(free, fixed)] == [ONE]
    held = address_of_tile(back, Mask((columns, IndexBound(0, "lower", pid * -4 + 1)), True), fixed)
    assert (held.axes[0].offset, held.axes[0].lower) == (pid * 4 - 1, ZERO)


def test_a_number_is_cut_into_rows_and_columns_where_a_bound_on_the_rows_cuts_it() -> None:
    """Rows that are counted down by blocks, of 64 columns behind the first ones: 128 rows less and 64 columns, not
    262,080 columns less, from which no tensor map could be read."""
    wide = Polynomial.constant_of(2048)
    tile = AffineTile((64, 64), (rows - k) * wide * 64 - 128 * 2048 + 64, (wide, ONE), "X")
    last = (k - rows) * 64 + 128
    for bound in (IndexBound(0, "lower", last), IndexBound(0, "upper", last + stride)):
        first, second = address_of_tile(tile, Mask((bound,), True), fixed).axes
        assert (first.offset, second.offset) == ((rows - k) * 64 - 128, Polynomial.constant_of(64))
    elsewhere = Mask((IndexBound(0, "upper", (k - rows) * 64 + stride),), True)
    assert address_of_tile(tile, elsewhere, fixed).axes[1].offset.constant == 64 - 128 * 2048
