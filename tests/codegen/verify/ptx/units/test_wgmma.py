"""wgmma: descriptors bit by bit, canonical layouts by hand, fragments, and products against plain ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twill.codegen.verify.ptx.units.wgmma import MatrixDescriptor, chunks, multiply
from twill.ptx.formats import FORMATS, decode, encode

MODES = {0: 0, 128: 1, 64: 2, 32: 3}
TYPES = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32}  # k of one instruction


def descriptor(start: int, leading: int, stride: int, swizzle: int, base: int = 0) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | MODES[swizzle] << 62


# ---------------------------------------------------------------- the descriptor
def test_a_descriptor_is_read_bit_by_bit() -> None:
    assert MatrixDescriptor.decoded(0x4000004000010040) == MatrixDescriptor(0x400, 16, 1024, 0, 128)
    assert MatrixDescriptor.decoded(0x8000002002003FFF) == MatrixDescriptor(0x3FFF0, 8192, 512, 0, 64)
    assert MatrixDescriptor.decoded(0xC00A001000000001) == MatrixDescriptor(16, 0, 256, 5, 32)
    # Bits 14, 15, 30, 31, 46 to 48 and 52 to 61 mean nothing.
    assert MatrixDescriptor.decoded(0x3FF1_C000_C000_C000) == MatrixDescriptor(0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "swizzle, places",
    [
        # Of a K-major matrix at 0, 16 bytes from its left edge: rows 0, 1, 2, 7, 8 (its stride is that of eight rows).
        (128, {0: 16, 1: 128, 2: 256 + 48, 7: 7 * 128 + 6 * 16, 8: 1024 + 16}),
        (64, {0: 16, 1: 64 + 16, 2: 128, 7: 7 * 64 + 32, 8: 512 + 16}),
        (32, {0: 16, 1: 32 + 16, 2: 64 + 16, 4: 128, 7: 7 * 32, 8: 256 + 16}),
    ],
)
def test_rows_along_k_lie_in_swizzled_panels(swizzle: int, places: dict[int, int]) -> None:
    found = chunks(descriptor(0, 16, 8 * swizzle, swizzle), 64, mn_major=False)
    assert found.shape == (64, 2)
    assert {row: found[row, 1] for row in places} == places


def test_a_step_along_k_moves_inside_of_the_panel() -> None:
    first = chunks(descriptor(4096, 16, 1024, 128), 8, mn_major=False)
    next_one = chunks(descriptor(4096 + 32, 16, 1024, 128), 8, mn_major=False)
    assert first[5].tolist() == [4096 + 5 * 128 + 5 * 16, 4096 + 5 * 128 + 4 * 16]
    assert next_one[5].tolist() == [4096 + 5 * 128 + 7 * 16, 4096 + 5 * 128 + 6 * 16]


def test_without_swizzle_leading_is_along_k_and_stride_along_rows() -> None:
    found = chunks(descriptor(256, 2048, 128, 0), 24, mn_major=False)
    assert found[[0, 1, 7, 8, 23]].tolist() == [
        [256, 2304], [272, 2320], [368, 2416], [384, 2432], [256 + 256 + 112, 2304 + 256 + 112]
    ]  # fmt: skip


@pytest.mark.parametrize(
    "swizzle, places",
    [
        # (k, eighth of the columns): leading is from panel to panel, stride from eight k to the next eight.
        (128, {(0, 0): 0, (0, 7): 112, (0, 8): 4096, (1, 0): 144, (7, 7): 896, (8, 0): 1024, (9, 9): 4096 + 1152}),
        (64, {(0, 3): 48, (0, 4): 4096, (1, 0): 64, (2, 0): 144, (8, 1): 512 + 16, (15, 5): 4096 + 512 + 448 + 32}),
        (32, {(0, 1): 16, (0, 2): 4096, (3, 0): 96, (4, 0): 128 + 16, (8, 0): 256, (12, 3): 4096 + 256 + 128}),
    ],
)  # fmt: skip
def test_rows_along_n_lie_in_swizzled_panels(swizzle: int, places: dict[tuple[int, int], int]) -> None:
    found = chunks(descriptor(0, 4096, 8 * swizzle, swizzle), 128, mn_major=True)
    assert found.shape == (16, 16)
    assert {place: found[place] for place in places} == places


def test_rows_along_n_without_swizzle_have_their_strides_exchanged() -> None:
    found = chunks(descriptor(0, 4096, 128, 0), 64, mn_major=True)
    assert {(k, n): found[k, n] for k, n in ((1, 0), (7, 0), (0, 1), (8, 0), (9, 3))} == {
        (1, 0): 16, (7, 0): 112, (0, 1): 128, (8, 0): 4096, (9, 3): 4096 + 16 + 384
    }  # fmt: skip


def test_a_base_offset_moves_the_pattern() -> None:
    # A panel that starts at 0x280, where the pattern has row 5.
    found = chunks(descriptor(0x280, 16, 1024, 128, base=5), 8, mn_major=False)
    assert found[:3, 0].tolist() == [0x280, 0x300 ^ 0x10, 0x380 ^ 0x20]


# ---------------------------------------------------------------- products
def laid(numbers: Any, kind: str, at: Any) -> Any:
    """A megabit of shared memory in which the matrix lies by its chunks."""
    shared = np.zeros(1 << 17, np.uint8)
    raw = np.ascontiguousarray(encode(numbers, kind)).view(np.uint8).reshape(*at.shape, 16)
    shared[at[..., None] + np.arange(16)] = raw
    return shared


def integers(rows: int, columns: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(-3, 4, (rows, columns)).astype(np.float32)


def d_places() -> list[tuple[int, int, int, int]]:
    """Thread, register, row, column: from the ISA's figure of D of m64n8k16, corners and middles by hand."""
    return [
        (0, 0, 0, 0), (0, 1, 0, 1), (0, 2, 8, 0), (0, 3, 8, 1), (1, 0, 0, 2), (3, 1, 0, 7), (4, 0, 1, 0),
        (31, 3, 15, 7), (32, 0, 16, 0), (127, 3, 63, 7), (0, 4, 0, 8), (0, 6, 8, 8), (70, 9, 33, 21),
    ]  # fmt: skip


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("kind", TYPES)
def test_operands_along_k_multiply(kind: str, swizzle: int) -> None:
    k, n = TYPES[kind], 40
    leading, stride = (1 << 14, 128) if not swizzle else (16, 8 * swizzle)
    desc_a, desc_b = descriptor(0, leading, stride, swizzle), descriptor(1 << 16, leading, stride, swizzle)
    a, b = integers(64, k, 1), integers(n, k, 2)
    shared = laid(a, kind, chunks(desc_a, 64, False)) | laid(b, kind, chunks(desc_b, n, False))
    d = np.ones((128, n // 2), np.float32).view(np.uint32)
    found = multiply((64, n, k), ("f32", kind, kind), desc_a, desc_b, shared, d, True).view(np.float32)
    for thread, register, row, column in d_places():
        assert found[thread, register] == (a @ b.T)[row, column] + 1
    assert np.array_equal(np.sort(found.ravel()), np.sort((a @ b.T + 1).ravel()))


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("major", [(False, True), (True, False), (True, True)])
def test_operands_along_m_and_n_multiply(major: tuple[bool, bool], swizzle: int) -> None:
    n, descs, mats = 128, [], []
    shared = np.zeros(1 << 17, np.uint8)
    for seed, (along, rows) in enumerate(zip(major, (64, n), strict=True)):
        leading, stride = (1 << 13, 8 * swizzle or 128) if along or not swizzle else (16, 8 * swizzle)
        desc = descriptor(seed << 16, leading, stride, swizzle)
        numbers, at = integers(rows, 16, seed), chunks(desc, rows, along)
        shared |= laid(numbers.T if along else numbers, "bf16", at)
        descs.append(desc)
        mats.append(numbers)
    d = np.full((128, n // 2), 0x7FC00000, np.uint32)  # NaN, which a product that starts anew does not read
    trans_a, trans_b = major
    found = multiply((64, n, 16), ("f32", "bf16", "bf16"), descs[0], descs[1], shared, d, False, 1, 1, trans_a, trans_b)
    for thread, register, row, column in d_places():
        assert found.view(np.float32)[thread, register] == (mats[0] @ mats[1].T)[row, column]


@pytest.mark.parametrize(
    "kind, places",
    [
        # Thread, register, element of it: row and column of A, from the ISA's figures.
        ("f16", {(0, 0, 1): (0, 1), (0, 1, 0): (8, 0), (0, 2, 0): (0, 8), (0, 3, 1): (8, 9), (37, 2, 1): (17, 11)}),
        ("tf32", {(0, 0, 0): (0, 0), (1, 0, 0): (0, 1), (0, 1, 0): (8, 0), (0, 2, 0): (0, 4), (127, 3, 0): (63, 7)}),
        ("e4m3", {(0, 0, 3): (0, 3), (1, 0, 0): (0, 4), (0, 1, 0): (8, 0), (0, 2, 1): (0, 17), (31, 3, 3): (15, 31)}),
    ],
)  # fmt: skip
def test_a_comes_from_registers(kind: str, places: dict[tuple[int, int, int], tuple[int, int]]) -> None:
    """B is one at (c, c) of its first columns: D is then A itself."""
    k = TYPES[kind]
    desc = descriptor(0, 16, 1024, 128)
    shared = laid(np.eye(k, dtype=np.float32), kind, chunks(desc, k, False))
    form = FORMATS[kind]
    for (thread, register, element), (row, column) in places.items():
        a = np.zeros((128, 4, 32 // form.width), form.bits)
        a[thread, register, element] = encode(np.array([2.5]), kind)[0]
        d = np.zeros((128, k // 2), np.uint32)
        found = multiply((64, k, k), ("f32", kind, kind), a.reshape(128, -1).view(np.uint32), desc, shared, d, True)
        holder = row // 16 * 32 + row % 8 * 4 + column % 8 // 2
        where = column // 8 * 4 + row // 8 % 2 * 2 + column % 2
        assert np.argwhere(found.view(np.float32) == 2.5).tolist() == [[holder, where]]


def test_signs_and_halves() -> None:
    desc = descriptor(0, 16, 1024, 128)
    shared = laid(integers(64, 16, 3), "f16", chunks(desc, 64, False))
    a = decode(shared[chunks(desc, 64, False)[..., None] + np.arange(16)].view(np.uint16), "f16").reshape(64, 16)
    d = np.zeros((128, 4), np.uint32)
    shape, kinds = (64, 16, 16), ("f16", "f16", "f16")
    found = multiply(shape, kinds, desc, desc, shared, d, True, -1, 1).view(np.float16)
    both = multiply(shape, kinds, desc, desc, shared, d, True, -1, -1).view(np.float16)
    assert np.array_equal(found, -both)
    for thread, register, row, column in d_places():
        if column < 16:
            assert both[thread, register] == (a @ a.T)[row, column]


@pytest.mark.parametrize("kinds", [("s32", "s8", "s8"), ("s32", "u8", "s8"), ("s32", "u8", "u8")])
def test_bytes_are_signed_as_named_and_sums_wrap_or_saturate(kinds: tuple[str, str, str]) -> None:
    desc = descriptor(0, 16, 256, 32)
    shared = np.full(1 << 12, 0xFF, np.uint8)
    one = [-1 if kind == "s8" else 255 for kind in kinds[1:]]
    product = 32 * one[0] * one[1]
    d = np.full((128, 4), 0x7FFFFFFF if product > 0 else 0x80000000, np.uint32)
    found = multiply((64, 8, 32), kinds, desc, desc, shared, d, True)
    assert (found == np.uint32((int(d[0, 0]) + product) % (1 << 32))).all()
    assert (multiply((64, 8, 32), kinds, desc, desc, shared, d, True, saturate=True) == d).all()
    assert (multiply((64, 8, 32), kinds, desc, desc, shared, d, False).view(np.int32) == product).all()


def test_low_bits_of_tf32_are_not_read() -> None:
    desc = descriptor(0, 16, 1024, 128)
    shared = np.zeros(1 << 14, np.uint8)
    shared.view(np.uint32)[:] = 0x3F801FFF
    found = multiply((64, 8, 8), ("f32", "tf32", "tf32"), desc, desc, shared, np.zeros((128, 4), np.uint32), True)
    assert (found.view(np.float32) == 8).all()


@pytest.mark.parametrize(
    "shape, kinds, options, said",
    [
        ((64, 12, 16), ("f32", "f16", "f16"), {}, "no shape"),
        ((64, 264, 16), ("f32", "f16", "f16"), {}, "no shape"),
        ((128, 8, 16), ("f32", "f16", "f16"), {}, "no shape"),
        ((64, 8, 32), ("f32", "f16", "f16"), {}, "no shape"),
        ((64, 40, 32), ("s32", "s8", "s8"), {}, "no shape"),
        ((64, 8, 16), ("f32", "f16", "bf16"), {}, "has no f32"),
        ((64, 8, 16), ("f16", "bf16", "bf16"), {}, "has no f16"),
        ((64, 8, 32), ("f32", "s8", "s8"), {}, "has no f32"),
        ((64, 8, 8), ("f32", "tf32", "tf32"), {"trans_b": True}, "along K only"),
    ],
)
def test_forms_that_do_not_exist_are_refused(shape: Any, kinds: Any, options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        multiply(shape, kinds, 0, 0, np.zeros(4096, np.uint8), np.zeros((128, 4), np.uint32), True, **options)


def test_matrices_outside_of_shared_memory_and_wrong_registers_are_refused() -> None:
    desc = descriptor(0, 16, 1024, 128)
    zeros = np.zeros((128, 4), np.uint32)
    with pytest.raises(ValueError, match="reads byte"):
        multiply((64, 8, 16), ("f32", "f16", "f16"), desc, desc, np.zeros(4096, np.uint8), zeros, True)
    with pytest.raises(ValueError, match="4 registers"):
        multiply((64, 8, 16), ("f32", "f16", "f16"), desc, desc, np.zeros(8192, np.uint8), zeros[:, :2], True)
    with pytest.raises(ValueError, match="transposes no A"):
        multiply((64, 8, 16), ("f32", "f16", "f16"), zeros, desc, np.zeros(8192, np.uint8), zeros, True, trans_a=True)
