"""Promises of prepared launches that are remembered: found by all that they rely on, bounded, moved where alike."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fake_driver import FakeDriver, fake_torch, forget, install
from twill.runtime.launch import LaunchShape, Packed, pack
from twill.runtime.module import LaunchParameter
from twill.runtime.plan import LaunchPlan
from twill.runtime.plans import MOST_PLANS, Call, Plans
from twill.runtime.tensor import TensorView
from twill.runtime.writer import FreeNumber, FreePointer

SIZES = [8, 4]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield install(monkeypatch, FakeDriver(SIZES))
    forget()


def packed(pointer: int) -> Packed:
    return pack(
        (LaunchParameter("x", "pointer"), LaunchParameter("n", "i32")), (TensorView(pointer, "f32", (), (), 0), 1)
    )


def prepared(pointer: int = 0x1000) -> LaunchPlan:
    """A launch of a kernel of a pointer, to be aligned by 64 bytes, and a number."""
    parameters = packed(pointer)
    shape = LaunchShape((1, 1, 1), (128, 1, 1))
    number = FreeNumber(1, 1, False, -(1 << 31), 1 << 31)
    return LaunchPlan(0, 77, shape, 0, parameters, (FreePointer(0, 0, 64), number), parameters.storage)


def seen(driver: FakeDriver) -> list[tuple[Any, ...]]:
    """Pointer, number and stream of every launch."""
    return [(*struct.unpack("<Qi", b"".join(one.values)), one.stream) for one in driver.launches]


def test_a_launch_takes_the_addresses_and_numbers_of_its_call(driver: FakeDriver) -> None:
    plan = prepared()
    for pointer, number, stream in ((0x2000, 5, 9), (0x1000, 6, 0)):
        assert plan.start((fake_torch(pointer), number), stream)
    assert seen(driver) == [(0x2000, 5, 9), (0x1000, 6, 0)]


@pytest.mark.parametrize("pointer", [0x2010, 0x2008])
def test_a_tensor_that_does_not_lie_as_it_was_promised_is_left_to_a_careful_look(
    driver: FakeDriver, pointer: int
) -> None:
    assert prepared().start((fake_torch(pointer), 5), 0) is False
    assert not driver.launches


def test_what_is_remembered_is_bounded(driver: FakeDriver) -> None:
    plans, plan = Plans(), prepared()
    for number in range(MOST_PLANS + 5):
        plans.add(Call((number,)), plan)
    assert len(plans.by_key) == MOST_PLANS
    assert (0,) not in plans.by_key and (MOST_PLANS + 4,) in plans.by_key


def test_a_copy_of_packed_parameters_shares_what_was_not_changed() -> None:
    first = packed(0x1000)
    second = first.changed({0: ctypes.c_uint64(0x3000)})
    assert second.storage[1] is first.storage[1]
    for one, pointer in ((first, 0x1000), (second, 0x3000)):
        addresses = (ctypes.c_void_p * 2).from_address(one.address)
        assert ctypes.c_uint64.from_address(addresses[0] or 0).value == pointer
        assert ctypes.c_int32.from_address(addresses[1] or 0).value == 1


def test_a_launch_waits_for_another_of_the_same_plan(driver: FakeDriver) -> None:
    plan = prepared()
    with plan.lock:
        thread = threading.Thread(target=plan.launch, args=(7,))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive() and not driver.launches
    thread.join()
    assert [launch.stream for launch in driver.launches] == [7]
