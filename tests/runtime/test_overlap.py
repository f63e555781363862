"""Promises of `twill.runtime.overlap`: tensors that the code takes for apart are apart at every launch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.fake_driver import FakeDriver, forget, install
from tests.manifests import CODE, KERNEL, SIZES
from tests.runtime.test_kernel import descriptor, vector
from twill import exc
from twill.runtime.kernel import EmittedKernel
from twill.runtime.overlap import OverlapPair, PairsOfLaunch, meet, overlapping, pairs_of, span
from twill.runtime.tensor import TensorView


def tensor(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> TensorView:
    return TensorView(pointer, "f32", shape, strides, device=0)


ROWS = tensor(4096, (16, 8), (32, 1))  # 8 of 32 columns: 15 rows of 128 bytes, and 32 bytes


def test_a_tensor_ends_behind_its_last_element() -> None:
    assert span(ROWS) == 15 * 128 + 32
    assert span(tensor(0, (0, 8), (8, 1))) == 0 and span(tensor(0, (), ())) == 4


@pytest.mark.parametrize(("other", "shared"), [
    (ROWS, True),
    (tensor(4096 + 15 * 128 + 28, (4,), (1,)), True),
    (tensor(4096 + 15 * 128 + 32, (4,), (1,)), False),  # just behind
    (tensor(4096 - 16, (4,), (1,)), False),  # just before
    (tensor(4096 - 12, (4,), (1,)), True),
    (tensor(4096 + 32, (16, 8), (32, 1)), False),  # the next columns of the same rows
    (tensor(4096 + 28, (16, 8), (32, 1)), True),  # one column too early
    (tensor(4096 - 32, (16, 8), (32, 1)), False),
    (tensor(4096 + 112, (16, 8), (32, 1)), True),  # around the end of a row, into the next
    (tensor(4096 + 32, (16, 8), (16, 1)), True),  # of other rows: not known
    (tensor(4096 + 32, (0, 8), (32, 1)), False),  # no element at all
])  # fmt: skip
def test_tensors_meet_where_they_may_share_an_element(other: TensorView, shared: bool) -> None:
    assert meet(ROWS, other) == meet(other, ROWS) == shared


def test_an_overlap_is_refused_with_both_names() -> None:
    tensors = {"y": ROWS, "x": ROWS, "z": tensor(1 << 20, (16,), (1,))}
    assert overlapping([("y", "z"), ("x", "z")], tensors, {}) is None
    found = overlapping([("z", "x"), ("y", "x")], tensors, {})
    assert found is not None and "`y`, which the kernel writes, overlaps `x`" in found.message


def test_a_pair_may_be_one_tensor_where_numbers_say_that_the_kernel_goes_through_both_alike() -> None:
    tensors = {"y": ROWS, "x": ROWS, "z": replace(ROWS, pointer=ROWS.pointer + 4)}
    pair = ("y", "x", "sy==sx", "sx>=n", "n>=8")
    assert overlapping([pair], tensors, {"sy": 32, "sx": 32, "n": 32}) is None
    for numbers in ({"sy": 32, "sx": 64, "n": 32}, {"sy": 31, "sx": 31, "n": 32}, {"sy": 32, "sx": 32, "n": 7}):
        assert overlapping([pair], tensors, numbers) is not None
    assert overlapping([("y", "z", "sy==sx")], tensors, {"sy": 32, "sx": 32}) is not None  # one element further


def test_a_launch_at_other_addresses_is_looked_at_as_it_is_there() -> None:
    (pair,) = pairs_of([("y", "x")], ["x", "n", "y"])
    assert pair == OverlapPair((2, 0))
    whole = torch.zeros(1024)
    left, right, both = whole[:512], whole[512:], whole[256:768]
    assert pair.right((left, 3, right)) and pair.right((right, 3, left)) and pair.right((left, 3, torch.zeros(8)))
    assert pair.right((left, 3, both)) is False and pair.right((both, 3, right)) is False
    square = whole.view(32, 32)
    assert pair.right((square[:, :16], 3, square[:, 16:])) and pair.right((square[:, :16], 3, square[:, 15:])) is False
    assert pair.right((object(), 3, left)) is None


def test_at_other_addresses_a_pair_may_be_one_tensor_too() -> None:
    (pair,) = pairs_of([("y", "x", "sy==sx", "sy>=8")], ["x", "sx", "y", "sy"])
    positioned = pair.positioned([1, 2, 3, 4])
    one = torch.zeros(64)
    assert pair.right((one, 8, one, 8)) and positioned.right(("grid", one, 8, one, 8))
    assert pair.right((one, 8, one, 9)) is False and pair.right((one, 7, one, 7)) is False
    assert pair.right((one, 8, one[1:], 8)) is False


def test_what_was_right_once_is_not_looked_at_again_and_every_difference_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = PairsOfLaunch(pairs_of([("y", "x", "sy==sx")], ["x", "sx", "y", "sy"]))
    whole, other = torch.zeros(64, 64), torch.zeros(64, 64)
    assert pairs.right((whole[:32], 8, whole[32:], 9)) and pairs.right((whole, 8, other, 9))
    assert pairs.right((whole[:32], 8, whole[16:48], 9)) is False  # never remembered
    assert pairs.right((whole, 8, whole, 8)) and pairs.right((whole, 8, whole, 9)) is False
    assert pairs.right((whole[:33], 8, whole[32:], 9)) is False  # of another size
    assert pairs.right((whole[:, :32], 8, whole[:, 32:], 9))
    monkeypatch.setattr(OverlapPair, "right", lambda *_: pytest.fail("it was looked at again"))
    assert pairs.right((whole[:32], 8, whole[32:], 9)) and pairs.right((whole[:, :32], 8, whole[:, 32:], 9))
    assert pairs.right((object(), 8, whole, 9)) is None


def test_tensors_in_storages_of_their_own_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = PairsOfLaunch(pairs_of([("y", "x"), ("y", "z")], ["x", "y", "z"]), {0: 3, 1: 5, 2: 7})
    x, y, z, whole = torch.zeros(64), torch.zeros(64), torch.zeros(64), torch.zeros(128)

    def values(*tensors: torch.Tensor) -> list[Any]:
        ends = [one.untyped_storage().data_ptr() + one.untyped_storage().nbytes() for one in tensors]
        told = [(one.data_ptr(), end - one.data_ptr()) for one, end in zip(tensors, ends, strict=True)]
        return [*tensors, *(number for both in told for number in both)]

    assert pairs.right(values(x, whole[:64], whole[64:])) and pairs.right(values(whole[:65], x, z))
    assert pairs.right(values(x, whole[64:], whole[:65])) is False and pairs.right(values(y[1:], y[:9], x)) is False
    monkeypatch.setattr(PairsOfLaunch, "looked_at", lambda *_: pytest.fail("they were looked at"))
    assert pairs.right(values(x, y, z)) and pairs.right(values(z[3:], x, y)) and pairs.right(values(x, y[5:], x))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    raw = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=raw))
    yield install(monkeypatch, FakeDriver(SIZES))
    forget()


def test_a_launch_that_overlaps_is_refused_also_where_it_is_the_second_of_its_kind(driver: FakeDriver) -> None:
    kernel = EmittedKernel(replace(KERNEL, apart=(("x", "a_desc"),)), CODE)
    kernel[(4,)](descriptor(0x100000), vector(0x20000), 1000, 512)
    for beside in (0x400000, 0x100000 - 4096 * 4):
        kernel[(4,)](descriptor(0x100000), vector(beside), 1000, 512)
    for inside in (0x100000, 0x100000 - 4096 * 4 + 16, 0x100000 + 999 * 1024):
        with pytest.raises(exc.OverlappingTensors, match="`x`"):
            kernel[(4,)](descriptor(0x100000), vector(inside), 1000, 512)
    assert len(driver.launches) == 3
