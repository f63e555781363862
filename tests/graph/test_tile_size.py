"""How much room tiles take (`twill.graph.tile_size`)."""

from __future__ import annotations

import pytest

from twill.graph.dependence import Tile
from twill.graph.tile_size import bits_of, tile_bytes


@pytest.mark.parametrize(("dtype", "bits"), [("bf16", 16), ("f8e4m3", 8), ("f32", 32), ("i64", 64), ("i1", 1)])
def test_elements_have_their_width(dtype: str, bits: int) -> None:
    assert bits_of(dtype) == bits


@pytest.mark.parametrize(("shape", "dtype", "share", "size"), [((128, 64), "bf16", 2, 8192), ((7,), "i1", 1, 1)])
def test_a_part_of_a_tile_has_its_share_of_the_bytes(shape: tuple[int, ...], dtype: str, share: int, size: int) -> None:
    assert tile_bytes(Tile(shape=shape, dtype=dtype, dims=tuple(range(len(shape)))), share) == size
