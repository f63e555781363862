"""Promises of `twill.codegen.lower.memory`: every tile lies where its swizzle needs it, nothing overlaps, nothing is
over."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import gemm
from twill import exc
from twill.codegen.lower.memory import SharedMemoryPlan, element_bytes
from twill.codegen.lowering import lower, with_barriers
from twill.codegen.warp.expression import Number
from twill.codegen.warp.program import NamedBarrier, TensorMapSpec

ELEMENTS = ("bf16", "f32", "f8e4m3", "i1", "i64")
SHAPES = st.one_of(
    st.tuples(st.integers(1, 2048)), st.tuples(st.sampled_from((8, 64, 100, 128)), st.sampled_from((3, 8, 16, 64, 256)))
)
TILES = st.lists(st.tuples(SHAPES, st.sampled_from(ELEMENTS), st.integers(1, 4)), min_size=1, max_size=6)
MAP = TensorMapSpec(-1, "x", "bf16", (None,), (Number(1),), Number(0), (64,), 128)


@settings(max_examples=60)
@given(TILES)
def test_tiles_are_aligned_and_apart(tiles: list[tuple[tuple[int, ...], str, int]]) -> None:
    memory = SharedMemoryPlan("k.py")
    for number, (shape, element, slots) in enumerate(tiles):
        memory.buffer(f"b{number}", shape, element, slots)
    buffers, total = memory.place(1 << 30)
    starts = [(b, b.offset + b.bytes * slot) for b in buffers for slot in range(b.slots)]
    for b, start in starts:
        assert start % (8 * b.swizzle if b.swizzle else 128) == 0
        assert start + prod(b.shape) * element_bytes(b.element) <= total
    for (one, first), (other, second) in combinations(starts, 2):
        assert first + one.bytes <= second or second + other.bytes <= first


@pytest.mark.parametrize(
    ("shape", "element", "swizzle", "panel"),
    [
        ((128, 64), "bf16", 128, 128),
        ((128, 256), "bf16", 128, 128),
        ((64, 32), "bf16", 64, 64),
        ((64, 16), "bf16", 32, 32),
        ((64, 96), "f8e4m3", 32, 32),
        ((64, 5), "f32", 0, 20),
        ((256,), "bf16", 0, 0),
    ],
)
def test_the_widest_swizzle_that_divides_a_row(shape: tuple[int, ...], element: str, swizzle: int, panel: int) -> None:
    made = SharedMemoryPlan("k.py").buffer("t", shape, element, 2)
    assert (made.swizzle, made.panel) == (swizzle, panel)
    assert made.bytes >= prod(shape) * element_bytes(element)


def test_elements_of_one_bit_take_a_byte() -> None:
    assert [element_bytes(element) for element in ELEMENTS] == [2, 4, 1, 1, 8]


def test_barriers_of_rings_are_counted() -> None:
    memory = SharedMemoryPlan("k.py")
    tile = memory.buffer("t", (64, 64), "bf16", 3)
    memory.aref("t", (tile.id,), 1, (0,), "tma", (1, 4))
    _, total = memory.place(1 << 20)
    assert total == 3 * 8192 + 3 * 2 * 8


def test_memory_that_does_not_do_names_what_is_in_it() -> None:
    memory = SharedMemoryPlan("k.py")
    memory.buffer("keys", (128, 128), "bf16", 7)
    with pytest.raises(exc.SharedMemoryFull) as raised:
        memory.place(200_000)
    assert "229376 bytes of shared memory of 200000: keys 7 x 32768" in raised.value.message
    assert raised.value.file == "k.py"
    assert memory.place(229376)[1] == 229376


def test_only_the_tma_counts_bytes() -> None:
    memory = SharedMemoryPlan("k.py")
    a, b = memory.buffer("a", (64, 64), "bf16", 2), memory.buffer("b", (64, 32), "bf16", 2)
    assert memory.aref("ab", (a.id, b.id), 1, (0,), "tma", (1, 4)).bytes == 8192 + 4096
    assert memory.aref("r", (a.id,), 1, (0,), "registers", (4, 4)).bytes == 0


def test_a_deeper_ring_has_deeper_buffers() -> None:
    memory = SharedMemoryPlan("k.py")
    tile = memory.buffer("t", (64, 64), "bf16", 2)
    ring = memory.aref("t", (tile.id,), 1, (0,), "tma", (1, 4))
    assert memory.with_depth(ring, 5) == memory.arefs[ring.id] == replace(ring, depth=5)
    assert memory.buffers[tile.id].slots == 5


def test_equal_maps_are_one() -> None:
    memory = SharedMemoryPlan("k.py")
    first, again, other = memory.map(MAP), memory.map(MAP), memory.map(replace(MAP, swizzle=64))
    assert (first.id, again.id, other.id) == (0, 0, 1)


def test_a_barrier_of_one_name_is_one() -> None:
    memory = SharedMemoryPlan("k.py")
    assert memory.barrier("turn", (0, 1)) == memory.barrier("turn", (0, 1))
    assert memory.barrier("group 0", (0,)).threads == 128
    assert memory.barriers[0].threads == 256


def test_a_kernel_that_needs_more_barriers_than_the_machine_has_is_refused() -> None:
    program = lower(gemm(), scheduled(gemm()), H100)
    some = tuple(NamedBarrier(number, f"{number}", (0,), 128) for number in range(16))
    assert with_barriers(replace(program, barriers=some[:15]), H100).barriers == some[:15]
    with pytest.raises(exc.UnsupportedInKernel, match="more than 15 named barriers"):
        with_barriers(replace(program, barriers=some), H100)
