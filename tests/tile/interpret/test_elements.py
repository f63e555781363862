"""Promises of the elements of a tile in memory: which they are, whoever asks, and that nobody can change them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twill.tile.interpret.arrays import np
from twill.tile.interpret.elements import LARGEST, Axis, window

bounds = st.none() | st.integers(-4, 12)
axes = st.lists(st.tuples(st.integers(1, 5), st.integers(-3, 9), st.integers(-4, 8), bounds, bounds), max_size=3)


@given(st.integers(-100, 100), axes)
def test_a_window_has_the_addresses_and_bounds_of_its_axes(constant: int, axes: list[Axis]) -> None:
    address, inside = window(constant, axes)
    assert address.shape == inside.shape == tuple(extent for extent, *_ in axes)
    for index in np.ndindex(address.shape):
        places = [offset + i for i, (_, _, offset, _, _) in zip(index, axes, strict=True)]
        expected = constant + sum(stride * at for (_, stride, *_), at in zip(axes, places, strict=True))
        limits = [(low, at, high) for (*_, low, high), at in zip(axes, places, strict=True)]
        within = all((low is None or low <= at) and (high is None or at < high) for low, at, high in limits)
        assert (int(address[index]), bool(inside[index])) == (expected, within)


@pytest.mark.parametrize("extent", [8, LARGEST + 1])
def test_nobody_can_write_into_a_window_which_others_may_be_given_too(extent: int) -> None:
    axis: list[Axis] = [(extent, 1, 0, 0, 5)]
    for part in window(0, axis):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1
    assert (window(0, axis)[0][:3] == [0, 1, 2]).all()
