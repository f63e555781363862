"""Tensor maps: what the driver refuses, what lies where in shared memory, what is outside of the tensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from twill.codegen.verify.ptx.units.tensor_map import TensorMapModel, combine, load, reduce, store, swizzled

# A matrix of 5 rows and 64 columns of 16 bits, row stride 160 bytes, at 0x100; a box of 3 rows and 32 columns.
MATRIX = TensorMapModel(0x100, "BFLOAT16", (64, 5), (160,), (32, 3), swizzle=64)


class Memory:
    """Global memory: numbers that say where they are."""

    def __init__(self) -> None:
        self.bytes = np.zeros(4096, np.uint8)
        self.bytes.view(np.uint16)[:] = np.arange(2048)

    def read(self, addresses: Any, size: int) -> Any:
        return self.bytes[addresses[:, None] + np.arange(size)]

    def write(self, addresses: Any, data: Any) -> None:
        self.bytes[addresses[:, None] + np.arange(data.shape[1])] = data


def landed(tensor: TensorMapModel, coords: tuple[int, ...], address: int, memory: Memory) -> Any:
    """All of shared memory after a load, elements of 16 bits."""
    shared = np.full(8192, 0xEE, np.uint8)
    offsets, data = load(tensor, coords, address, memory.read)
    shared[(offsets + address)[:, None] + np.arange(16)] = data
    return shared


@pytest.mark.parametrize(
    "swizzle, places",
    [
        # The first byte of rows 0 to 8 of 128 bytes; worked out from bits 7, 8, 9 of the address by hand.
        (128, [0, 128 + 16, 256 + 32, 384 + 48, 512 + 64, 640 + 80, 768 + 96, 896 + 112, 1024]),
        (64, [0, 128 + 16, 256 + 32, 384 + 48, 512, 640 + 16, 768 + 32, 896 + 48, 1024]),
        (32, [0, 128 + 16, 256, 384 + 16, 512, 640 + 16, 768, 896 + 16, 1024]),
        (0, [0, 128, 256, 384, 512, 640, 768, 896, 1024]),
    ],
)
def test_swizzles_exchange_chunks_by_the_bits_above(swizzle: int, places: list[int]) -> None:
    assert swizzled(np.arange(9) * 128, swizzle).tolist() == places


def test_a_box_lies_row_after_row_with_its_chunks_exchanged() -> None:
    memory = Memory()
    words = landed(MATRIX, (32, 1), 1024, memory)[1024:].view(np.uint16)
    first = (0x100 + 160 + 64) // 2  # row 1, column 32
    # Rows of 64 bytes: rows 0 and 1 lie where bits 7 and 8 are 0; row 2 begins at 128, so its chunks change.
    assert words[:64].tolist() == [*range(first, first + 32), *range(first + 80, first + 112)]
    third = first + 160
    assert words[64:96].tolist() == [third + chunk * 8 + column for chunk in (1, 0, 3, 2) for column in range(8)]
    assert words[96] == 0xEEEE


def test_the_pattern_goes_with_the_address_and_not_with_the_row() -> None:
    memory = Memory()
    narrow = replace(MATRIX, box=(64, 1), swizzle=128)
    plain = landed(narrow, (0, 0), 1024, memory)[1024 : 1024 + 128].view(np.uint16)
    moved = landed(narrow, (0, 0), 1024 + 3 * 128, memory)[1024 + 384 : 1024 + 512].view(np.uint16)
    assert moved[24] == plain[0] == 0x80 and moved[0] == plain[24]


@pytest.mark.parametrize("coords", [(-8, 3), (48, -2), (56, 4), (0, 7), (64, 0)])
def test_what_is_outside_is_zero_and_not_stored(coords: tuple[int, int]) -> None:
    memory, plain = Memory(), replace(MATRIX, swizzle=0)
    words = landed(plain, coords, 1024, memory)[1024:].view(np.uint16)
    for row in range(3):
        for column in range(32):
            x, y = coords[0] + column, coords[1] + row
            inside = 0 <= x < 64 and 0 <= y < 5
            assert words[row * 32 + column] == (128 + 80 * y + x if inside else 0)
    shared = np.full(4096, 0xEE, np.uint8)
    before = memory.bytes.copy()
    store(plain, coords, shared, 1024, memory.write)
    changed = np.flatnonzero((memory.bytes != before).reshape(-1, 2).any(1))
    allowed = [128 + 80 * y + x for y in range(5) for x in range(64)
               if 0 <= x - coords[0] < 32 and 0 <= y - coords[1] < 3]  # fmt: skip
    assert changed.tolist() == sorted(allowed)


def test_what_is_outside_may_be_nan() -> None:
    words = landed(replace(MATRIX, fill="nan"), (64, 0), 1024, Memory())[1024 : 1024 + 192].view(np.uint16)
    assert (words == 0x7FFF).all()


@pytest.mark.parametrize("swizzle, columns", [(0, 8), (32, 16), (64, 32), (128, 64)])
def test_a_store_undoes_a_load(swizzle: Any, columns: int) -> None:
    tensor = replace(MATRIX, box=(columns, 4), swizzle=swizzle)
    memory = Memory()
    shared = landed(tensor, (0, 0), 2048, memory)
    whole, memory.bytes = memory.bytes.copy(), np.zeros_like(memory.bytes)
    store(tensor, (0, 0), shared, 2048, memory.write)
    for row in range(4):
        at = slice(0x100 + 160 * row, 0x100 + 160 * row + 2 * columns)
        assert np.array_equal(memory.bytes[at], whole[at])
        memory.bytes[at] = 0
    assert not memory.bytes.any()


def test_three_dimensions_and_steps_lie_innermost_first() -> None:
    tensor = TensorMapModel(0, "UINT16", (16, 6, 4), (32, 192), (8, 4, 2), (1, 2, 1))
    assert tensor.shape == (8, 2, 2) and tensor.bytes == 64
    words = landed(tensor, (8, 1, 2), 0, Memory())[:64].view(np.uint16).reshape(2, 2, 8)
    for z in range(2):
        for y in range(2):
            assert words[z, y].tolist() == [96 * (2 + z) + 16 * (1 + 2 * y) + 8 + x for x in range(8)]


def test_reductions_combine_elements_in_memory() -> None:
    memory = Memory()
    tensor = TensorMapModel(0, "INT32", (8, 2), (32,), (8, 2))
    memory.bytes.view(np.int32)[:16] = np.arange(16) - 4
    shared = np.full(64, 3, np.int32).view(np.uint8)
    reduce(tensor, "max", (4, 0), shared, 0, memory.read, memory.write)
    assert memory.bytes.view(np.int32)[:16].tolist() == [-4, -3, -2, -1, 3, 3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    reduce(tensor, "add", (0, 1), shared, 0, memory.read, memory.write)
    assert memory.bytes.view(np.int32)[6:11].tolist() == [3, 3, 7, 8, 9]


def test_rows_at_one_place_are_added_one_after_the_other() -> None:
    memory = Memory()
    memory.bytes[:] = 0
    shared = np.ones(8, np.float32).view(np.uint8)
    reduce(TensorMapModel(0, "FLOAT32", (4, 2), (0,), (4, 2)), "add", (0, 0), shared, 0, memory.read, memory.write)
    assert memory.bytes.view(np.float32)[:5].tolist() == [2, 2, 2, 2, 0]


@pytest.mark.parametrize(
    "dtype, operation, old, new, wanted",
    [
        ("UINT32", "max", 0xFFFFFFFF, 1, 0xFFFFFFFF), ("INT32", "max", 0xFFFFFFFF, 1, 1),
        ("UINT32", "inc", 7, 7, 0), ("UINT32", "inc", 6, 7, 7), ("UINT32", "dec", 0, 7, 7), ("UINT32", "dec", 9, 7, 7),
        ("UINT32", "add", 0xFFFFFFFF, 2, 1), ("UINT32", "xor", 6, 3, 5), ("UINT32", "and", 6, 3, 2),
        ("FLOAT32", "add", 0x3F800000, 0x33800000, 0x3F800000), ("BFLOAT16", "add", 0x3F803F80, 0x40003B80, 0x40403F80),
        ("FLOAT16", "max", 0x3C00FE00, 0x40003C00, 0x40003C00),
    ],
)  # fmt: skip
def test_each_reduction_is_that_of_the_elements_type(
    dtype: str, operation: str, old: int, new: int, wanted: int
) -> None:
    sides = (np.array([[side]], np.uint32).view(np.uint8) for side in (old, new))
    assert combine(dtype, operation, *sides).view(np.uint32).tolist() == [[wanted]]


def test_a_type_lacks_some_reductions() -> None:
    with pytest.raises(ValueError, match="no xor of FLOAT16"):
        combine("FLOAT16", "xor", np.zeros((1, 2), np.uint8), np.zeros((1, 2), np.uint8))


@pytest.mark.parametrize(
    "change, said",
    [
        ({"address": 0x108}, "no multiple of 16"),
        ({"dtype": "FLOAT8"}, "no elements of type"),
        ({"dims": (64, 0)}, "not 1 to 2\\^32"),
        ({"dims": (64,) * 6}, "6 dimensions"),
        ({"strides": (168,)}, "not multiples of 16"),
        ({"strides": (1 << 40,)}, "below 2\\^40"),
        ({"strides": (160, 160)}, "2 strides for 2"),
        ({"box": (32, 257)}, "not 1 to 256"),
        ({"box": (32,)}, "need 2 dimensions"),
        ({"box": (4, 3)}, "rows of 8 bytes"),
        ({"box": (64, 3)}, "exceed the swizzle"),
        ({"element_strides": (1, 9)}, "not 1 to 8"),
        ({"swizzle": 96}, "no swizzle of 96"),
        ({"interleave": 16}, "interleaved"),
        ({"dtype": "UINT16", "fill": "nan"}, "no NaN"),
    ],
)
def test_what_the_driver_refuses_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(MATRIX, **change)


def test_copies_want_as_many_coordinates_as_dimensions_and_aligned_places() -> None:
    with pytest.raises(ValueError, match="3 coordinates"):
        load(MATRIX, (0, 0, 0), 1024, Memory().read)
    with pytest.raises(ValueError, match="no multiple of 128"):
        load(MATRIX, (0, 0), 1024 + 64, Memory().read)


def test_elements_of_four_bits_are_unpacked_to_half_of_each_chunk() -> None:
    tensor = TensorMapModel(0, "16U4_ALIGN16B", (256, 3), (128,), (128, 2))
    memory = np.arange(3 * 128, dtype=np.uint8)
    offsets, chunks = load(tensor, (128, 2), 0, lambda at, size: memory[at[:, None] + np.arange(size)])
    assert (tensor.bytes, tensor.extent) == (128, 256)
    assert offsets.tolist() == [16 * i for i in range(16)]
    assert chunks[:8, :8].ravel().tolist() == memory[2 * 128 + 64 : 3 * 128].tolist()
    assert not chunks[:, 8:].any() and not chunks[8:].any()  # padding, and a row beside the tensor


@pytest.mark.parametrize(
    ("dims", "box", "coordinate"), [((200, 1), (128, 1), 0), ((256, 1), (64, 1), 0), ((256, 1), (128, 1), 64)]
)
def test_elements_of_four_bits_are_copied_in_whole_boxes(
    dims: tuple[int, int], box: tuple[int, int], coordinate: int
) -> None:
    with pytest.raises(ValueError, match="16U4_ALIGN16B"):
        load(TensorMapModel(0, "16U4_ALIGN16B", dims, (128,), box), (coordinate, 0), 0, lambda at, size: at)
