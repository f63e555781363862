"""Promises of tensor map parameters: computed without a driver, and refused before it sees them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twill import exc
from twill.runtime.tensor import TensorView
from twill.runtime.tensor_map import TensorMapParameters, TileBox, joined, parameters

MATRIX = TensorView(pointer=0x7F0000000000, dtype="bf16", shape=(1000, 512), strides=(520, 1), device=0)
BOX = TileBox((128, 64))


def test_the_driver_sees_the_innermost_dimension_first() -> None:
    assert parameters(MATRIX, BOX, "A") == TensorMapParameters(
        pointer=0x7F0000000000,
        dtype="bf16",
        sizes=(512, 1000),
        strides=(1040,),
        box=(64, 128),
        swizzle=128,
        promotion=128,
        nan_outside=False,
    )


def test_five_dimensions_with_strides_in_any_order() -> None:
    tensor = TensorView(0, "f32", (2, 3, 4, 5, 64), (64, 128, 384, 1536, 1), device=0)
    found = parameters(tensor, TileBox((1, 1, 2, 4, 32)), "x")
    assert found.sizes == (64, 5, 4, 3, 2)
    assert found.strides == (6144, 1536, 512, 256)
    assert found.box == (32, 4, 2, 1, 1)


def test_one_dimension_has_no_strides() -> None:
    assert parameters(TensorView(0, "f16", (40,), (1,), device=0), TileBox((8,), swizzle=0), "x").strides == ()


def test_neighbours_are_one_element_of_a_wider_type() -> None:
    wide = joined(MATRIX, 4, "A")
    assert (wide.dtype, wide.shape, wide.strides) == ("u64", (1000, 128), (130, 1))
    found = parameters(wide, TileBox((1, 256), swizzle=0), "A")
    assert (found.sizes, found.strides, found.box) == ((128, 1000), (1040,), (256, 1))
    assert joined(MATRIX, 1, "A") == MATRIX


@pytest.mark.parametrize("odd", [{"shape": (1000, 510)}, {"strides": (518, 1)}])
def test_rows_that_are_no_multiple_of_the_wider_type_are_refused(odd: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(exc.MisalignedTensor, match="multiples of 4 elements"):
        joined(replace(MATRIX, **odd), 4, "A")  # type: ignore[arg-type]


def test_the_stride_of_a_dimension_of_one_does_not_matter() -> None:
    odd = replace(MATRIX, shape=(1, 1000, 512), strides=(7, 520, 1))
    assert parameters(odd, TileBox((1, 128, 64)), "A").strides == (1040, 1024)
    column = replace(MATRIX, shape=(1000, 1), strides=(8, 3))
    assert parameters(column, TileBox((128, 8), swizzle=32), "A").sizes == (1, 1000)


def test_equal_tensors_have_equal_parameters() -> None:
    assert hash(parameters(MATRIX, BOX, "A")) == hash(parameters(replace(MATRIX, alive=object()), BOX, "B"))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"pointer": 0x7F0000000008}, exc.MisalignedTensor, "starts at address 0x7f0000000008"),
        ({"strides": (516, 1)}, exc.MisalignedTensor, "steps by 1032 bytes in dimension 0"),
        ({"strides": (-520, 1)}, exc.MisalignedTensor, "steps by -1040 bytes in dimension 0"),
        ({"strides": (1 << 39, 1)}, exc.MisalignedTensor, "in dimension 0"),
        ({"strides": (1, 1000)}, exc.MisalignedTensor, "stride 1000 in its last dimension"),
        ({"shape": (0, 512)}, exc.WrongArgument, "size 0 in dimension 0"),
        ({"shape": (1000, (1 << 31) + 1)}, exc.WrongArgument, "in dimension 1"),
        ({"shape": (1,) * 6, "strides": (1,) * 6}, exc.WrongArgument, "a tensor of 6 dimensions"),
    ],
)
def test_a_tensor_that_tma_cannot_take_is_refused_by_name(
    change: dict[str, object], error: type[exc.TwillError], words: str
) -> None:
    with pytest.raises(error, match="`A`") as caught:
        parameters(replace(MATRIX, **change), BOX, "A")  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert "instead:" in str(caught.value)


@pytest.mark.parametrize(
    ("box", "words"),
    [
        (TileBox((128,)), "has 1 dimensions"),
        (TileBox((257, 64)), "has 257 elements in dimension 0"),
        (TileBox((0, 64)), "has 0 elements in dimension 0"),
        (TileBox((8, 12)), "has rows of 24 bytes"),
        (TileBox((8, 128)), "a 128-byte swizzle takes rows up to that"),
        (TileBox((8, 32), swizzle=32), "a 32-byte swizzle takes rows up to that"),
    ],
)
def test_a_box_that_tma_cannot_copy_is_refused(box: TileBox, words: str) -> None:
    with pytest.raises(exc.BadBox) as caught:
        parameters(MATRIX, box, "A")
    assert words in str(caught.value)


def test_only_floats_are_filled_with_nan() -> None:
    with pytest.raises(exc.BadBox, match="NaN"):
        parameters(replace(MATRIX, dtype="i16"), replace(BOX, nan_outside=True), "A")
    assert parameters(MATRIX, replace(BOX, nan_outside=True), "A").nan_outside
