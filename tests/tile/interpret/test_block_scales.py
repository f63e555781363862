"""Promises of block scales: chunks, formats and sums are those of the specifications."""

from __future__ import annotations

import numpy as np

from twill.tile.interpret import block_scales


def test_chunks_hold_the_scales_of_rows_32_apart_side_by_side() -> None:
    places = block_scales.in_chunks(256, 8)
    assert sorted(places.ravel()) == list(range(256 * 8))
    assert places[0, :5].tolist() == [0, 1, 2, 3, 512] and places[[1, 32, 33, 128], 0].tolist() == [16, 4, 20, 1024]
    tile = np.arange(256 * 8)
    assert (block_scales.in_rows(tile.reshape(1, 2, 2, 2, 256), 256, 8) == places).all()


def test_formats() -> None:
    e8m0 = np.array([0, 126, 127, 128, 254, 255], np.uint8).view(np.int8)
    assert block_scales.numbers(e8m0)[:5].tolist() == [2.0**-127, 0.5, 1, 2, 2.0**127]
    assert np.isnan(block_scales.numbers(e8m0)[5])
    packed = np.array([[0x10, 0x32, 0x54, 0x76, 0x98, 0xFE]], np.uint8).view(np.int8)
    assert block_scales.unpacked(packed, "e2m1").tolist() == [[0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -4, -6]]


def test_sums_are_rounded_once() -> None:
    a, b = np.full((1, 64), 1, np.float32), np.full((64, 1), 1, np.float32)
    a[0, 32:] = 2**-9
    scales = np.array([[127 + 15, 127]], np.uint8).view(np.int8)
    said = {"a": "e4m3", "b": "e4m3", "block": 32, "layout": "rows"}
    ones = np.full((1, 2), 127, np.uint8).view(np.int8)
    exact = 32 * 2.0**15 + 32 * 2.0**-9
    assert block_scales.multiplied([a, b, np.zeros((1, 1), np.float32), scales, ones], said) == np.float32(exact)
