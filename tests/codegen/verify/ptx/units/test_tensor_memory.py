"""Which cells of tensor memory which register of which thread is."""

from __future__ import annotations

import numpy as np
import pytest

from twill.codegen.verify.ptx.units.fragments import d_registers
from twill.codegen.verify.ptx.units.tensor_memory import decoded, moved, rows_of


@pytest.mark.parametrize(
    ("shape", "count", "lanes", "columns"),
    [("32x32b", 8, 32, 8), ("16x64b", 4, 16, 8), ("16x128b", 2, 16, 8), ("16x256b", 2, 16, 16)],
)
def test_a_shape_takes_each_of_its_cells_once(shape: str, count: int, lanes: int, columns: int) -> None:
    lane, column = moved(shape, count)
    cells = {*zip(lane.ravel().tolist(), column.ravel().tolist(), strict=True)}
    assert len(cells) == lane.size == lanes * columns
    assert cells == {(row, place) for row in range(lanes) for place in range(columns)}


def test_two_halves_lie_apart_in_the_same_lanes() -> None:
    lane, column = moved("16x32bx2", 4, 32)
    assert lane[:, 0].tolist() == [*range(16), *range(16)]
    assert column[3].tolist() == [0, 1, 2, 3] and column[19].tolist() == [32, 33, 34, 35]


def test_the_widest_shape_is_the_accumulator_of_mma_sync() -> None:
    matrix = np.arange(16 * 16, dtype=np.uint32).reshape(16, 16)
    lane, column = moved("16x256b", 2)
    assert (matrix[lane, column] == d_registers(matrix)).all()


def test_products_of_64_rows_take_half_of_each_quarter() -> None:
    assert rows_of(128, 0).tolist() == list(range(128))
    assert rows_of(64, 0)[[0, 15, 16, 63]].tolist() == [0, 15, 32, 111]
    assert rows_of(64, 16)[[0, 15, 16, 63]].tolist() == [16, 31, 48, 127]
    for rows, lane in ((128, 16), (64, 32), (192, 0)):
        with pytest.raises(ValueError, match="a product of"):
            rows_of(rows, lane)


def test_an_address_is_a_lane_and_a_column() -> None:
    assert decoded(0x00600105) == (96, 0x105)
    for address in (0x00800000, 0x200):
        with pytest.raises(ValueError, match="of 128 x 512"):
            decoded(address)
