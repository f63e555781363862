"""Promises of what a launch writes anew: plainly right values or none, each in its own place."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_driver import fake_torch
from twill.runtime.writer import Free, FreeCells, FreeMap, FreeNumber, FreePointer

FREE: tuple[Free, ...] = (
    FreeNumber(1, 2, False, -(1 << 31), 1 << 31, 16), FreeNumber(2, 0, True, positive=True),
    FreeNumber(3, None, False, -(1 << 31), 1 << 31), FreeNumber(4, 1, False, -(1 << 63), 1 << 63),
    FreePointer(0, 3, 64),
)  # fmt: skip


class Nowhere:
    value = 0


class Moves:
    """Tensor maps that may not be where 32 does not divide the address."""

    def __init__(self) -> None:
        self.at = [0x800]
        self.moved: list[int] = []

    def move(self, number: int, pointer: int) -> bool:
        self.moved.append(pointer)
        self.at[number] = pointer
        return not pointer % 32


class Cells:
    """Of one launch. write: as its plan calls it."""

    def __init__(self, matched: bool, maps: tuple[FreeMap, ...] = (), moves: Moves | None = None) -> None:
        made = (ctypes.c_int32(1), ctypes.c_float(0.5), Nowhere(), ctypes.c_int64(2), ctypes.c_uint64(3))
        cells = FreeCells(FREE, made, matched)
        self.slots, self.write = cells.slots, cells.writer(maps, moves or Moves())


cells = Cells


def test_the_pointer_of_a_descriptor_is_that_of_its_tensor() -> None:
    cell = FreeCells([FreePointer(0, 3, 64, True)], [ctypes.c_uint64(1)], True)
    write = cell.writer((), Moves())
    assert write([SimpleNamespace(base=fake_torch(0x2000))]) and cell.slots[3].value == 0x2000


def test_a_map_is_moved_where_its_tensor_is_and_only_then() -> None:
    moves, good = Moves(), [fake_torch(0x1000), 32, 1.5, 7, 9]
    descriptor = SimpleNamespace(base=fake_torch(0x2000))
    one = Cells(True, (FreeMap(5, 4, 0x20, True),), moves)
    assert one.write([*good, descriptor]) and one.write([*good, descriptor])
    assert moves.moved == [0x2020]
    assert not one.write([*good, SimpleNamespace(base=fake_torch(0x2004))])
    other = Cells(True, (FreeMap(0, 4, -0x800, False),), moves := Moves())
    assert other.write(good) and not moves.moved  # where it was


def content(cells: Cells) -> list[Any]:
    return [cells.slots[slot].value for slot in range(4)]


@pytest.mark.parametrize("matched", [False, True])
def test_every_value_is_in_its_own_place(matched: bool) -> None:
    one, other = cells(matched), cells(matched)
    assert content(one) == [0.5, 2, 1, 3]
    assert one.write([fake_torch(0x1000), 32, 1.5, 7, -(1 << 40)])
    assert content(one) == [1.5, -(1 << 40), 32, 0x1000] and content(other) == [0.5, 2, 1, 3]


@pytest.mark.parametrize("position, wrong", [
    (0, fake_torch(0x1010)), (1, 1 << 31), (1, -(1 << 31) - 16), (2, 0.0), (2, float("nan")), (2, 1e300), (3, 1 << 31),
    (4, 1 << 63),
])  # fmt: skip
@pytest.mark.parametrize("matched", [False, True])
def test_what_is_not_plainly_right_takes_a_careful_look(position: int, wrong: Any, matched: bool) -> None:
    one, values = cells(matched), [fake_torch(0x1000), 32, 1.5, 7, 9]
    values[position] = wrong
    assert not one.write(values)
    assert one.write([fake_torch(0x40), 16, 2.5, 7, 8]) and content(one) == [2.5, 8, 16, 0x40]


@pytest.mark.parametrize("position, wrong", [(1, 33), (1, True), (1, 32.0), (2, True), (3, 7.0), (4, None)])
def test_what_a_matcher_has_not_told_apart_is_looked_at_here(position: int, wrong: Any) -> None:
    one, values = cells(matched=False), [fake_torch(0x1000), 32, 1.5, 7, 9]
    values[position] = wrong
    assert not one.write(values)
