"""Places of elements as digits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from twill.tile.digits import digits_of, places_of, rearranged


@given(some.permutations(range(4)), some.lists(some.sampled_from([1, 2, 3, 4, 8]), min_size=4, max_size=4))
def test_transposed_tiles_of_any_shape_have_digits(order: list[int], shape: list[int]) -> None:
    places = np.arange(np.prod(shape)).reshape(shape).transpose(order)
    digits = digits_of(places)
    assert digits is not None
    np.testing.assert_array_equal(places_of(digits), places.reshape(-1))


def test_digits_are_as_few_as_there_can_be() -> None:
    assert digits_of(np.arange(64).reshape(4, 16)) == (0, (64,), (1,))
    assert digits_of(np.arange(8)[::-1]) == (7, (8,), (-1,))
    assert digits_of(np.array([0, 2, 4, 6, 1, 3, 5, 7])) == (0, (2, 4), (1, 2))
    assert digits_of(np.broadcast_to(np.arange(4)[:, None], (4, 8))) == (0, (4, 8), (1, 0))


@pytest.mark.parametrize("places", [[0, 1, 3, 2], [0, 1, 2, 4], [1, 0, 2]])
def test_places_without_an_order_have_none(places: list[int]) -> None:
    assert digits_of(np.array(places)) is None


def test_tiles_are_counted_through_one_behind_the_other() -> None:
    left, right = np.arange(4), np.arange(4) + 10
    digits = digits_of(np.stack((np.arange(4), np.arange(4) + 4), axis=-1))
    assert digits is not None
    np.testing.assert_array_equal(rearranged([left, right], digits, (4, 2)), np.stack((left, right), axis=-1))
