"""The instances of a kernel that strides over tiles, for a launch grid."""

from __future__ import annotations

import pytest

from twill.manifest.evaluate import ScalarOperation
from twill.manifest.tile_loop import TileLoop, instance_grid

TILES = ScalarOperation("mul", "i32", ("M", "N"))


@pytest.mark.parametrize("grid", [(4,), (4, 3), (24,), (5, 3), (6, 3)])
def test_there_is_an_instance_for_each_tile_whatever_the_grid_is_that_reaches_all(grid: tuple[int, ...]) -> None:
    loop = TileLoop(0, TILES, 4, once=False)
    assert instance_grid(loop, grid, {"M": 2, "N": 3}) == (6, *grid[1:])


def test_fewer_programs_than_the_stride_are_enough_for_fewer_tiles() -> None:
    assert instance_grid(TileLoop(0, TILES, 132, once=True), (6,), {"M": 2, "N": 3}) == (6,)


def test_programs_that_stride_by_their_own_number_reach_every_tile() -> None:
    assert instance_grid(TileLoop(1, TILES, None, once=True), (2,), {"M": 2, "N": 3}) == (2, 6)


@pytest.mark.parametrize("sizes", [{"M": 0, "N": 3}, {"M": -2, "N": 3}])
def test_no_tiles_are_no_instances(sizes: dict[str, int]) -> None:
    assert instance_grid(TileLoop(0, TILES, 4, once=False), (4,), sizes) == (0,)


def test_without_programs_there_are_no_instances() -> None:
    assert instance_grid(TileLoop(0, TILES, 4, once=False), (0,), {"M": 2, "N": 3}) == (0,)


def test_fail_a_grid_that_leaves_tiles_out_or_adds_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="3 programs, which leave out some of 6 tiles by steps of 4"):
        instance_grid(TileLoop(0, TILES, 4, once=False), (3,), {"M": 2, "N": 3})
    with pytest.raises(ValueError, match="5 programs, of which some work on the same of 6 tiles"):
        instance_grid(TileLoop(0, TILES, 4, once=True), (5,), {"M": 2, "N": 3})
    with pytest.raises(ValueError, match="by steps of 0"):
        instance_grid(TileLoop(0, TILES, "S", once=True), (5,), {"M": 2, "N": 3, "S": 0})
