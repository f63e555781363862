"""Promises of reading DLPack, shown on NumPy's arrays."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from twill.runtime.dlpack import read_dlpack


def test_pointer_type_shape_and_strides_are_the_arrays() -> None:
    array = np.zeros((4, 6, 8), dtype=np.float32)[1:, ::2, :]
    found = read_dlpack(array)
    assert found.pointer == array.ctypes.data
    assert (found.dtype, found.shape, found.strides, found.device) == ("f32", (3, 3, 8), (48, 16, 1), None)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("bool", "i1"), ("int8", "i8"), ("uint16", "u16"), ("int64", "i64"), ("float16", "f16"), ("float64", "f64")],
)
def test_element_types_have_the_names_of_tile_programs(dtype: str, name: str) -> None:
    assert read_dlpack(np.zeros(3, dtype=dtype)).dtype == name


def test_reading_borrows_and_gives_back() -> None:
    array = np.zeros(3)
    before = sys.getrefcount(array)
    for _ in range(10):
        read_dlpack(array)
    assert sys.getrefcount(array) == before


def test_what_has_no_dlpack_or_no_name_is_refused() -> None:
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        read_dlpack([1])
    with pytest.raises(TypeError, match="element type"):
        read_dlpack(np.zeros(3, dtype=np.complex64))
