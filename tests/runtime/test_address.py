"""Promises of the places that depend on where tensors are: found in the manifest, written anew, never unaligned."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tests.fake_driver import FakeDriver, fake_torch, forget, install
from tests.manifests import KERNEL
from twill.runtime.address import TensorAddress, addresses
from twill.runtime.tensor import TensorView
from twill.runtime.tensor_map import TensorMap

NAMES = ["a_desc", "x", "M", "N", "scale"]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield install(monkeypatch, FakeDriver([]))
    forget()


def encoded(pointer: int) -> TensorMap:
    """A map as the driver's would be: its address first."""
    storage = (ctypes.c_uint64 * 16)(pointer, 7)
    return TensorMap(pointer, storage, ctypes.addressof(storage), 1)


def test_maps_and_pointers_are_found_with_their_offsets_and_promises() -> None:
    tensors = {name: TensorView(start, "f32", (), (), 0) for name, start in (("a_desc", 0x1000), ("x", 0x2000))}
    found = addresses(KERNEL, NAMES, tensors, [encoded(0x1000), encoded(0x2800)])
    assert found == (TensorAddress(0, 0, 0, 16), TensorAddress(1, 1, 0x800, 16), TensorAddress(1, 3, 0, 16))


def test_a_map_is_moved_by_the_driver_and_the_old_one_stays(driver: FakeDriver) -> None:
    before = encoded(0x2800)
    descriptor = SimpleNamespace(base=fake_torch(0x5000), block_shape=[64])
    after = TensorAddress(0, 0, 0x800, 16).moved(descriptor, before)
    assert (after.pointer, after.device) == (0x5800, 1)
    content = [(ctypes.c_uint64 * 16).from_address(one.address)[:2] for one in (before, after)]
    assert content == [[0x2800, 7], [0x5800, 7]]


def test_a_map_that_is_there_already_is_taken(driver: FakeDriver) -> None:
    before = encoded(0x2800)
    assert TensorAddress(0, 0, 0x800, 16).moved(fake_torch(0x2000), before) is before
    assert driver.moved == []


def test_nothing_is_moved_to_where_it_may_not_be(driver: FakeDriver) -> None:
    assert TensorAddress(0, 0, 0, 64).moved(fake_torch(0x5020), ctypes.c_uint64(0)) is None
    assert TensorAddress(0, 0, 8, 16).moved(fake_torch(0x5000), encoded(0x2800)) is None
    assert TensorAddress(0, 0, 0, 16).moved(TensorView(0x5000, "f32", (), (), 0), encoded(0x2800)) is None
    driver.immovable = True
    assert TensorAddress(0, 0, 0, 16).moved(fake_torch(0x5000), encoded(0x2800)) is None
