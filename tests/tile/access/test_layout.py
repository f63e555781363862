"""Promises of `twill.tile.access.layout`: views lead from memory's shape to the kernel's and back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from twill.tile.access.address import Address
from twill.tile.access.layout import layout_of
from twill.tile.affine import Polynomial
from twill.tile.program import Axis

ZERO, ONE, STRIDE = Polynomial(), Polynomial.constant_of(1), Polynomial.symbol(0)
SIZES = Polynomial.symbol(1)


def address(*axes: tuple[int, Polynomial], complete: bool = True, upper: Polynomial | None = None) -> Address:
    return Address("X", tuple(Axis(extent, stride, ZERO, None, upper) for extent, stride in axes), ZERO, complete)


CASES = [
    tuple(zip(extents, strides, strict=True))
    for extents in itertools.product((1, 4, 8), repeat=3)
    for strides in itertools.permutations((ONE, STRIDE, ZERO))
]


@pytest.mark.parametrize("axes", [(), ((4, ONE),), ((1, ZERO),), ((8, ONE), (4, STRIDE)), *CASES])
def test_views_restore_the_kernels_shape(axes: tuple[tuple[int, Polynomial], ...]) -> None:
    strides = {ONE: 1, STRIDE: 16, ZERO: 0}
    seen = address(*axes)
    shape = tuple(extent for extent, _ in axes)
    index = np.indices(shape)
    wanted = sum((i * strides[stride] for i, (_, stride) in zip(index, axes, strict=True)), start=np.zeros(shape, int))
    # A unit axis has stride 0 to the analysis; here any will do, its index is 0.
    layout = layout_of(seen, load=True)
    memory = layout.in_memory(seen)
    inner = np.indices(layout.memory)
    tile = sum(
        (i * strides[axis.stride] for i, axis in zip(inner, memory.axes, strict=True)),
        start=np.zeros(layout.memory, int),
    )
    for kind, attributes, result in layout.views_after_load():
        if kind == "transpose":
            tile = tile.transpose(attributes["order"])
        elif kind == "reshape":
            tile = tile.reshape(result)
        else:
            tile = np.broadcast_to(tile, result)
        assert tile.shape == result
    np.testing.assert_array_equal(tile, wanted)


def test_the_axis_of_stride_one_lies_last() -> None:
    layout = layout_of(address((8, ONE), (4, STRIDE)), load=True)
    assert (layout.stored, layout.order, layout.memory) == ((0, 1), (1, 0), (4, 8))
    assert layout.views_before_store() == [("transpose", {"order": (1, 0)}, (4, 8))]


def test_stores_and_bounded_axes_keep_axes_that_repeat_an_element() -> None:
    assert layout_of(address((8, ZERO), (4, ONE)), load=True).memory == (4,)
    assert layout_of(address((8, ZERO), (4, ONE)), load=False).memory == (8, 4)
    assert layout_of(address((8, ZERO), (4, ONE), upper=SIZES), load=True).memory == (8, 4)


def test_a_mask_operand_keeps_the_shape() -> None:
    layout = layout_of(address((8, ONE), (1, ZERO), complete=False), load=True)
    assert (layout.memory, layout.views_after_load(), layout.views_before_store()) == ((8, 1), [], [])
