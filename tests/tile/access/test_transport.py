"""Promises of `twill.tile.access.transport`: a tensor map only where one is possible, and the reason if not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from twill.tile.access.address import Address
from twill.tile.access.scalar import Fact, SymbolicScalars
from twill.tile.access.transport import Movement, choose, copy_bytes, reducible
from twill.tile.affine import Polynomial
from twill.tile.program import Axis

STRIDE, PID, SIZE = range(3)
stride, pid, size = map(Polynomial.symbol, range(3))
ZERO, ONE = Polynomial(), Polynomial.constant_of(1)


@pytest.fixture
def scalars() -> SymbolicScalars:
    found = SymbolicScalars()
    found.declare(STRIDE, Fact(8, fixed=True))
    found.declare(PID, Fact(nonnegative=True))
    found.declare(SIZE, Fact(fixed=True))
    return found


def movement(*axes: Axis, kind: str = "tile_load", constant: Polynomial = ZERO, element: str = "bf16") -> Movement:
    address = Address("X", axes, constant, True)
    names = {STRIDE: "stride", PID: "pid", SIZE: "size"}
    return Movement(kind, "add", element, element, address, 0.0, 16, False, names)


ROWS, COLUMNS = Axis(64, stride, pid * 64, None, size), Axis(64, ONE, ZERO, ZERO, size)


def chosen(moved: Movement, scalars: SymbolicScalars) -> tuple[str, str]:
    found = choose(moved, scalars)
    return found.kind, found.reason


def test_an_aligned_bounded_tile_has_a_tensor_map(scalars: SymbolicScalars) -> None:
    assert chosen(movement(ROWS, COLUMNS), scalars) == ("tma", "")
    assert chosen(movement(replace(ROWS, extent=1024), COLUMNS), scalars) == ("tma", "")  # several boxes


def test_alignment_counts_bytes_not_elements(scalars: SymbolicScalars) -> None:
    assert chosen(movement(ROWS, COLUMNS, element="f8e4m3"), scalars)[0] == "copy"  # 8 bytes
    assert chosen(movement(ROWS, COLUMNS, constant=pid * 8), scalars)[0] == "tma"
    assert chosen(movement(ROWS, COLUMNS, constant=pid * 4), scalars)[0] == "copy"


def test_terms_that_move_the_tile_are_axes_of_the_tensor_map(scalars: SymbolicScalars) -> None:
    batch = [scalars.declare(symbol) for symbol in range(10, 14)]
    three = sum((b * stride for b in batch[:3]), start=stride * 2)
    assert chosen(movement(ROWS, COLUMNS, constant=three), scalars) == ("tma", "")
    transport, reason = chosen(movement(ROWS, COLUMNS, constant=three + batch[3] * stride), scalars)
    assert (transport, reason) == ("copy", "it has 6 strides, over 5")


def test_a_term_that_moves_the_tile_backward_is_no_axis_of_a_tensor_map(scalars: SymbolicScalars) -> None:
    down = movement(ROWS, COLUMNS, constant=size * 8 - pid * 64)
    assert chosen(down, scalars) == ("copy", "it moves by -64*pid, and no stride of a tensor map is negative")
    before = "a tensor map of it would begin in front of the tensor"
    assert chosen(movement(ROWS, COLUMNS, constant=-size * 8 + pid * 64), scalars) == ("copy", before)
    assert chosen(movement(ROWS, COLUMNS, constant=pid * 64 - 64), scalars)[0] == "tma"  # one step less


def test_a_descriptor_promises_alignment(scalars: SymbolicScalars) -> None:
    unknown = movement(replace(ROWS, stride=size), COLUMNS)
    assert chosen(unknown, scalars)[0] == "plain"
    assert chosen(replace(unknown, promised=True, alignment=1), scalars) == ("tma", "")


def test_masked_elements_read_as_zero_or_nan(scalars: SymbolicScalars) -> None:
    tile = movement(ROWS, COLUMNS)
    assert chosen(replace(tile, pad=math.nan), scalars) == ("tma", "")
    assert chosen(replace(tile, pad=-math.inf), scalars)[0] == "plain"
    unmasked = movement(replace(ROWS, upper=None), replace(COLUMNS, lower=None, upper=None))
    assert chosen(replace(unmasked, pad=-math.inf), scalars) == ("tma", "")
    assert chosen(replace(tile, kind="tile_store", pad=1.0), scalars) == ("tma", "")


def test_which_reductions_are_tensor_reductions(scalars: SymbolicScalars) -> None:
    assert chosen(movement(ROWS, COLUMNS, kind="tile_reduce", element="f32"), scalars) == ("tma", "")
    maximum = replace(movement(ROWS, COLUMNS, kind="tile_reduce", element="f32"), combine="max")
    assert chosen(maximum, scalars) == ("plain", "no tensor reduction is max of f32")
    assert reducible("bf16", "max") and reducible("i32", "xor")
    assert not reducible("f64", "add") and not reducible("f8e4m3", "add")


def test_copies_are_as_long_as_alignment_and_extent_allow(scalars: SymbolicScalars) -> None:
    tile = movement(ROWS, COLUMNS)
    assert copy_bytes(tile, scalars) == 16
    assert copy_bytes(replace(tile, alignment=4), scalars) == 4
    assert copy_bytes(movement(ROWS, replace(COLUMNS, extent=4)), scalars) == 8
    assert copy_bytes(movement(ROWS, replace(COLUMNS, offset=pid * 4)), scalars) == 8
    assert copy_bytes(movement(replace(ROWS, stride=size), COLUMNS), scalars) == 2
    assert copy_bytes(movement(COLUMNS, ROWS), scalars) == 2
