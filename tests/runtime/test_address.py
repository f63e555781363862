"""Promises of the places that depend on where tensors are: found in the manifest, written anew, never unaligned."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.fake_driver import FakeDriver, fake_torch, forget, install
from tests.manifests import KERNEL
from twill.runtime.address import MOST_MAPS, MovingMaps, free_addresses
from twill.runtime.launch import Packed
from twill.runtime.tensor import TensorView
from twill.runtime.tensor_map import TensorMap
from twill.runtime.writer import FreeMap, FreePointer

NAMES = ["a_desc", "x", "M", "N", "scale"]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield install(monkeypatch, FakeDriver([]))
    forget()


def encoded(pointer: int) -> TensorMap:
    """A map as the driver's would be: its address first."""
    storage = (ctypes.c_uint64 * 16)(pointer, 7)
    return TensorMap(pointer, storage, ctypes.addressof(storage), 1)


def test_maps_and_pointers_of_pytorch_are_found_with_their_offsets_and_promises() -> None:
    tensors = {name: TensorView(start, "f32", (), (), 0) for name, start in (("a_desc", 0x1000), ("x", 0x2000))}
    descriptor = SimpleNamespace(base=fake_torch(0x1000), block_shape=[64])
    maps = [encoded(0x1000), encoded(0x2800)]
    pointers, moving = free_addresses(KERNEL, NAMES, [descriptor, fake_torch(0x2000), 1, 2, 0.5], tensors, maps)
    assert pointers == (FreePointer(1, 3, 16, False),)
    assert moving == (FreeMap(0, 0, 0, True), FreeMap(1, 1, 0x800, False))
    others = [TensorView(0x1000, "f32", (), (), 0), TensorView(0x2000, "f32", (), (), 0), 1, 2, 0.5]
    assert free_addresses(KERNEL, NAMES, others, tensors, maps) == ((), ())


def test_a_descriptor_whose_tile_goes_without_a_map_is_a_pointer_to_its_tensor() -> None:
    tensors = {name: TensorView(start, "f32", (), (), 0) for name, start in (("a_desc", 0x1000), ("x", 0x2000))}
    values = [fake_torch(0x1000), SimpleNamespace(base=fake_torch(0x2000), block_shape=[64]), 1, 2, 0.5]
    pointers, _ = free_addresses(KERNEL, NAMES, values, tensors, [encoded(0x1000), encoded(0x2800)])
    assert pointers == (FreePointer(1, 3, 16, True),)


def moving(*pointers: int) -> MovingMaps:
    """The maps of a launch, one a parameter."""
    storage = tuple(map(encoded, pointers))
    slots = (ctypes.c_void_p * len(pointers))(*(one.address for one in storage))
    free = [FreeMap(number, number, 0, False) for number in range(len(pointers))]
    return MovingMaps(free, Packed(slots, storage, ctypes.addressof(slots)))


def content(maps: MovingMaps, number: int) -> list[int]:
    """Of the map that a parameter points to."""
    return (ctypes.c_uint64 * 16).from_address(maps.packed.pointers[number] or 0)[:2]


def test_a_map_is_moved_by_the_driver_once_and_the_old_one_stays(driver: FakeDriver) -> None:
    maps = moving(0x2800, 0x4000)
    for pointer in (0x5800, 0x2800, 0x5800):
        assert maps.move(0, pointer)
        assert content(maps, 0) == [pointer, 7] and content(maps, 1) == [0x4000, 7] and maps.at == [pointer, 0x4000]
    assert driver.moved == [0x5800]


def test_nothing_is_moved_to_where_it_may_not_be(driver: FakeDriver) -> None:
    maps = moving(0x2800)
    assert not maps.move(0, 0x5808)
    driver.immovable = True
    assert not maps.move(0, 0x5800)
    assert content(maps, 0) == [0x2800, 7] and maps.at == [0x2800]


def test_maps_that_are_remembered_are_bounded(driver: FakeDriver) -> None:
    maps = moving(0x2800)
    for number in range(MOST_MAPS + 5):
        assert maps.move(0, 0x10000 + 16 * number) and content(maps, 0)[0] == 0x10000 + 16 * number
    assert len(maps.known[0]) <= MOST_MAPS
