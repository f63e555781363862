"""The printer shows every part of a program, with kernel lines and names."""

from __future__ import annotations

from twill.tile.affine import Polynomial
from twill.tile.program import Access, Argument, Axis, Carry, Loop, Op, TileProgram, TileType, Value
from twill.tile.text import program_text

INT, TILE = TileType((), "i32"), TileType((4, 2), "f32")


def test_a_program_with_a_loop_and_an_access() -> None:
    names = {0: ("out", TileType((), "ptr:f32")), 1: ("n", INT), 3: ("i", INT), 4: ("acc", TILE), 5: ("x", TILE),
             7: ("acc", TILE)}  # fmt: skip
    values = tuple(Value(v, names.get(v, ("", INT))[1], names.get(v, ("", INT))[0], 3) for v in range(8))
    row = Axis(4, Polynomial.symbol(1), Polynomial.symbol(3) * 4, upper=Polynomial.symbol(1))
    column = Axis(2, Polynomial.constant_of(1), Polynomial())
    access = Access("out", "f32", (row, column), Polynomial.constant_of(7), 0.0, "plain", "a reason")
    load = Op(1, "tile_load", (), (5,), (), 8, "x", access)
    total = Op(2, "add", (4, 5), (6,), (("signed", 1),), 0, "")
    body = (
        Op(0, "constant", (), (2,), (("value", 1),), 6, ""),
        Loop(3, 3, 2, 1, 2, (Carry("acc", 4, 4, 6, 7),), (load, total), 7),
        Op(4, "store", (0, 7), (), (), 9, ""),
    )
    arguments = (Argument("out", 0, names[0][1], 16), Argument("n", 1, INT, 1))
    assert program_text(TileProgram("k", "s", "k.py", arguments, values, body)) == (
        "kernel k spec s file k.py\n"
        "argument %0 out: ptr:f32, multiple of 16\n"
        "argument %1 n: i32\n"
        "%2 = constant value=1: i32  # line 6\n"
        "for %3:i in range(%2, %1:n, %2)  # line 7\n"
        "  carry %4:acc from %4:acc: 4x2 f32\n"
        "  %5:x = tile_load: 4x2 f32 at out + 7 [4 from 4*%3:i by %1:n in ..%1:n, 2 from 0 by 1] pad 0.0 plain "
        "(a reason)  # line 8\n"
        "  %6 = add %4:acc %5:x signed=1: i32\n"
        "  yield %6 -> %7:acc\n"
        "store %0:out %7:acc  # line 9\n"
    )
