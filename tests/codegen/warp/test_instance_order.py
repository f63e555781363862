"""Promises of `twill.codegen.warp.instance_order` and `twill.codegen.lower.grouped_rasterization`: every instance once,
neighbours share operands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden_schedules import Example, kernel, machine, schedule
from twill.codegen.lowering import lower
from twill.codegen.warp.instance_order import rasterized
from twill.tile.interpret.sequential import instances

SIZES = st.integers(0, 9)


@given(SIZES, SIZES, st.integers(0, 3), st.sampled_from([0, 1, 2, 4, 8]))
def test_every_instance_is_met_once(rows: int, columns: int, layers: int, raster_group: int) -> None:
    grid = (rows, columns, layers)
    found = list(rasterized(grid, raster_group))
    assert sorted(found) == sorted(instances(grid)) and len(found) == rows * columns * layers


def test_a_band_is_walked_column_by_column() -> None:
    assert [index[:2] for index in rasterized((3, 2), 2)] == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


@given(SIZES, SIZES, st.integers(0, 3), st.sampled_from([1, 2, 4, 8]))
def test_the_printed_arithmetic_walks_alike(rows: int, columns: int, layers: int, raster_group: int) -> None:
    found = []
    for instance in range(rows * columns * layers):
        in_layer = instance % (rows * columns)
        first_row = in_layer // (raster_group * columns) * raster_group
        in_band, height = in_layer - first_row * columns, min(rows - first_row, raster_group)
        found.append((first_row + in_band % height, in_band // height, instance // (rows * columns)))
    assert found == list(rasterized((rows, columns, layers), raster_group))


@pytest.mark.parametrize(
    ("file", "spec", "raster_group"),
    [
        ("gemm_bias_gelu", "bf16", 8),  # a moves with one axis of the grid, b with the other
        ("gemm_bias_gelu", "bf16-wide", 16),
        ("gemm", "bf16", 0),  # the kernel orders its tiles itself
        ("attention", "full", 0),  # nothing that products read moves with one axis alone
        ("layer_norm", "bf16", 0),
    ],
)
def test_bands_where_both_operands_are_shared(file: str, spec: str, raster_group: int) -> None:
    example = Example(f"examples/{file}.py", spec)
    assert lower(kernel(example).program, schedule(example), machine()).raster_group == raster_group
