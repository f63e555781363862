"""Promises of `twill.codegen.aliasing`: which arguments a launch must find in different memory."""

from __future__ import annotations

from tests.tile_programs import Programs
from twill.codegen.aliasing import must_be_apart
from twill.tile.affine import Polynomial, as_polynomial
from twill.tile.program import Access, Axis, TileProgram


def straight(store_first: bool) -> TileProgram:
    """Y = 2 X, before or behind Z = 2 W."""
    p = Programs()
    for name in ("X", "Y", "W", "Z"):
        p.argument(name, "ptr:f32")
    if store_first:
        x = p.load("X", (64,), "f32")
        p.store("Y", p.op("add", x, x))
        w = p.load("W", (64,), "f32")
    else:
        x, w = p.load("X", (64,), "f32"), p.load("W", (64,), "f32")
        p.store("Y", p.op("add", x, x))
    p.store("Z", p.op("add", w, w))
    return p.done()


def looped(shift: int) -> TileProgram:
    """Tile i of Y is made of tile i + shift of X."""
    p = Programs()
    for name in ("X", "Y"):
        p.argument(name, "ptr:f32")
    with p.loop(p.argument("trips"), []) as k:
        x = p.load("X", (64,), "f32", at=(k.i * 64 + 64 * shift,))
        p.store("Y", p.op("add", x, x), at=(k.i * 64,))
        k.yields = []
    return p.done()


def test_what_is_loaded_before_every_store_may_be_the_same_memory() -> None:
    assert must_be_apart(straight(store_first=False)) == ()


def test_what_is_loaded_behind_a_store_to_another_argument_must_be_apart_from_it() -> None:
    assert must_be_apart(straight(store_first=True)) == (("Y", "W"),)


def test_an_iteration_may_store_the_tile_that_it_has_loaded_and_no_other() -> None:
    assert must_be_apart(looped(0)) == ()
    assert must_be_apart(looped(1)) == (("Y", "X"),)


def strided(other_stride: str, repeated: bool = False) -> TileProgram:
    """Row i of Y is made of row i of X, each tensor with a row stride of its own; repeated: of row 0, every time."""
    p = Programs()
    for name in ("X", "Y"):
        p.argument(name, "ptr:f32")
    strides = {name: Polynomial.symbol(p.argument(name)) for name in ("sx", "sy")}
    with p.loop(p.argument("trips"), []) as k:
        row = 0 if repeated else k.i
        x = p.op("tile_load", shape=(64,), element="f32", access=rows("X", strides["sx"], row))
        p.op("tile_store", p.op("add", x, x), access=rows("Y", strides[other_stride], row))
        k.yields = []
    return p.done()


def rows(base: str, stride: Polynomial, row: int | Polynomial) -> Access:
    """A row of a matrix."""
    axes = Axis(1, stride, as_polynomial(row)), Axis(64, as_polynomial(1), as_polynomial(0))
    return Access(base, "f32", axes, Polynomial(), 0.0, "plain", "")


def test_rows_with_strides_of_their_own_may_be_the_same_rows_where_the_strides_are_equal() -> None:
    assert must_be_apart(strided("sy")) == (("Y", "X", "sy==sx"),)
    assert must_be_apart(strided("sx")) == ()


def offset(masked: bool, stride: int = 1) -> TileProgram:
    """Row i of Y is made of row i of X, where a row is a distance and a tile of 64 elements, or of those below n."""
    p = Programs()
    for name in ("X", "Y"):
        p.argument(name, "ptr:f32")
    strides = {name: Polynomial.symbol(p.argument(f"s{name}")) for name in ("X", "Y")}
    n = Polynomial.symbol(p.argument("n")) if masked else None
    with p.loop(p.argument("trips"), []) as k:
        axis = Axis(64, as_polynomial(stride), as_polynomial(0), None, n)
        row = {b: Access(b, "f32", (axis,), strides[b] * k.i, 0.0, "plain", "") for b in ("X", "Y")}
        x = p.op("tile_load", shape=(64,), element="f32", access=row["X"])
        p.op("tile_store", p.op("add", x, x), access=row["Y"])
        k.yields = []
    return p.done()


def test_rows_that_a_number_moves_may_be_the_same_rows_where_they_do_not_overlap() -> None:
    assert must_be_apart(offset(masked=False)) == (("Y", "X", "sY==sX", "sX>=64"),)
    assert must_be_apart(offset(masked=True)) == (("Y", "X", "sY==sX", "sX>=n"),)
    assert must_be_apart(offset(masked=True, stride=2)) == (("Y", "X", "sY==sX", "sX>=127"),)


def test_what_descriptors_hold_is_not_compared() -> None:
    p = Programs()
    for name in ("X", "Y"):
        p.argument(name, "ptr:f32")
    strides = [Polynomial.symbol(p.argument(f"{name}.stride.0")) for name in ("X", "Y")]
    with p.loop(p.argument("trips"), []) as k:
        x = p.op("tile_load", shape=(64,), element="f32", access=rows("X", strides[0], k.i))
        p.op("tile_store", p.op("add", x, x), access=rows("Y", strides[1], k.i))
        k.yields = []
    assert must_be_apart(p.done()) == (("Y", "X"),)


def test_what_every_iteration_loads_must_be_apart_from_what_every_iteration_stores() -> None:
    assert must_be_apart(strided("sy", repeated=True)) == (("Y", "X"),)
    assert must_be_apart(strided("sx", repeated=True)) == (("Y", "X"),)


def test_a_second_loop_over_what_a_first_one_was_made_of_must_be_apart_from_it() -> None:
    p = Programs()
    for name in ("X", "Y"):
        p.argument(name, "ptr:f32")
    trips = p.argument("trips")
    for _ in range(2):
        with p.loop(trips, []) as k:
            x = p.load("X", (64,), "f32", at=(k.i * 64,))
            p.store("Y", p.op("add", x, x), at=(k.i * 64,))
            k.yields = []
    assert must_be_apart(p.done()) == (("Y", "X"),)
