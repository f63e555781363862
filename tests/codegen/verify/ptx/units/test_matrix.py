"""A warp's matrices: who holds what after ldmatrix, what stmatrix writes where, mma against plain products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twill.codegen.verify.ptx.units.matrix import ldmatrix, mma, movmatrix, stmatrix
from twill.ptx.formats import FORMATS, encode

WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}


def numbered() -> Any:
    """Shared memory in which word w of 16 bits is w."""
    return np.arange(1024, dtype=np.uint16).view(np.uint8).copy()


def rows(apart: int = 32) -> Any:
    """Lane i addresses row i % 8 of matrix i / 8: rows `apart` bytes apart, matrices side by side by 16 bytes."""
    lane = np.arange(32)
    return lane % 8 * apart + lane // 8 % 2 * 16 + lane // 16 * 8 * apart


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_lane_loads_two_neighbours_of_a_row(count: int) -> None:
    found = ldmatrix(count, rows(), numbered()).view(np.uint16).reshape(32, count, 2)
    for lane in range(32):
        for m in range(count):
            first = (lane // 4 * 32 + m % 2 * 16 + m // 2 * 256) // 2 + 2 * (lane % 4)
            assert found[lane, m].tolist() == [first, first + 1]


def test_transposed_a_lane_loads_two_neighbours_of_a_column() -> None:
    found = ldmatrix(4, rows(), numbered(), trans=True).view(np.uint16).reshape(32, 4, 2)
    for lane in range(32):
        for m in range(4):
            above = (2 * (lane % 4) * 32 + m % 2 * 16 + m // 2 * 256) // 2 + lane // 4
            assert found[lane, m].tolist() == [above, above + 16]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_a_store_undoes_a_load(count: int, trans: bool) -> None:
    shared = numbered()
    held = ldmatrix(count, rows(), shared, trans)
    at, data = stmatrix(count, rows() + 1024, held, trans)
    shared[at] = data
    assert np.array_equal(shared[at - 1024], shared[at]) and at.shape == (8 * count, 16)


def test_several_warps_at_once_are_each_alone() -> None:
    both = np.stack([rows(), rows() + 64])
    found = ldmatrix(2, both, numbered())
    assert found.shape == (2, 32, 2)
    assert np.array_equal(found[1], ldmatrix(2, both[1], numbered()))


def test_a_matrix_moves_to_its_transpose() -> None:
    one = ldmatrix(1, rows(16), numbered())[:, 0]
    assert np.array_equal(movmatrix(one), ldmatrix(1, rows(16), numbered(), trans=True)[:, 0])
    assert movmatrix(one).view(np.uint16)[:2].tolist() == [0, 8]


def test_rows_have_to_be_aligned() -> None:
    with pytest.raises(ValueError, match="0x18, no multiple of 16"):
        ldmatrix(1, np.full(32, 24), numbered())
    with pytest.raises(ValueError, match="3 matrices"):
        ldmatrix(3, rows(), numbered())


def packed(elements: Any, kind: str) -> Any:
    """[32, r, p] numbers as registers."""
    if kind in ("s8", "u8"):
        stored = elements.astype(np.int64).astype(np.uint8)
    else:
        stored = encode(elements.astype(np.float32), kind)
    return np.ascontiguousarray(stored).view(np.uint32)[..., 0]


@pytest.mark.parametrize(
    "kind, k",
    [("f16", 8), ("f16", 16), ("bf16", 8), ("bf16", 16), ("tf32", 4), ("tf32", 8), ("e4m3", 16), ("e4m3", 32),
     ("e5m2", 32), ("s8", 16), ("s8", 32), ("u8", 32)],
)  # fmt: skip
def test_products_are_those_of_the_matrices(kind: str, k: int) -> None:
    """Fragments filled lane by lane as the ISA writes their formulas down."""
    per, random = 32 // WIDTHS[kind], np.random.default_rng(7)
    low = 0 if kind == "u8" else -3
    a, b, c = random.integers(low, 4, (16, k)), random.integers(low, 4, (k, 8)), random.integers(-9, 9, (16, 8))
    count = k // (4 * per)  # registers of B
    left, right = np.zeros((32, 2 * count, per)), np.zeros((32, count, per))
    start = np.zeros((32, 4), np.int32)
    for lane in range(32):
        group, thread = lane >> 2, lane % 4
        for i in range(2 * count * per):
            row = group if i // per % 2 == 0 else group + 8
            column = thread * per + i % per + (4 * per if i >= 2 * per else 0)
            left[lane, i // per, i % per] = a[row, column]
        for i in range(count * per):
            right[lane, i // per, i % per] = b[thread * per + i % per + (4 * per if i >= per else 0), group]
        for i in range(4):
            start[lane, i] = c[group if i < 2 else group + 8, thread * 2 + (i & 1)]
    result = "s32" if kind in ("s8", "u8") else "f32"
    given = start.view(np.uint32) if result == "s32" else start.astype(np.float32).view(np.uint32)
    found = mma((16, 8, k), (result, kind, kind), packed(left, kind), packed(right, kind), given)
    values = found.view(np.int32 if result == "s32" else np.float32)
    for lane in range(32):
        for i in range(4):
            row, column = (lane >> 2) + (0 if i < 2 else 8), lane % 4 * 2 + (i & 1)
            assert values[lane, i] == (a @ b + c)[row, column]


def test_halves_are_accumulated_in_pairs() -> None:
    one = np.full((32, 4), 0x3C003C00, np.uint32)
    found = mma((16, 8, 16), ("f16", "f16", "f16"), one, one[:, :2], one[:, :2])
    assert found.shape == (32, 2) and (found.view(np.float16) == 17).all()


def test_forms_that_do_not_exist_are_refused() -> None:
    some = np.zeros((32, 4), np.uint32)
    with pytest.raises(ValueError, match="no m16n8k32 of f16"):
        mma((16, 8, 32), ("f32", "f16", "f16"), some, some, some)
    with pytest.raises(ValueError, match="other registers"):
        mma((16, 8, 16), ("f32", "f16", "f16"), some, some, some)
    assert FORMATS["f16"].width == 16
