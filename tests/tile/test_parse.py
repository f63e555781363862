"""Promises of `twill.tile.parse`: a text says the whole program, and what is wrong in one is shown by line and
column."""

from __future__ import annotations

import pytest

from tests.conftest import GOLDEN
from tests.pass_texts import pass_cases
from twill import exc
from twill.tile.affine import Polynomial
from twill.tile.parse import parse
from twill.tile.text import program_text

HEAD = "kernel k spec s file k.py"
N = "argument %0 n: i32"


def test_the_texts_of_all_examples_are_read_back() -> None:
    paths = sorted(GOLDEN.glob("program_*.txt"))
    assert len(paths) > 20
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert program_text(parse(text)) == text, path.name


def test_the_texts_of_rewritten_programs_are_read_back() -> None:
    for case in pass_cases(GOLDEN / "rewrites"):
        assert program_text(parse(case.after)) == case.after, case.title


def test_what_is_not_the_rule_is_read_back() -> None:
    text = (
        "kernel k spec s file k.py, strict, no fp fusion\n"
        "argument %0 X: ptr:f8e4m3, multiple of 16\n"
        "argument %2 s: f32, positive\n"
        "argument %3 D: 64x32 desc:bf16\n"
        "%5 = constant value=(): i32  # line 4\n"
        "%6:x = tile_load: 4x2 f8e4m3 at X + -2*%5 [4 from -%5*%5 + 3 by 1 in 1..%5, 2 from 0 by 1 in ..9] pad -inf "
        "plain (why (not): [x])\n"
        "%7 = tile_load %6:x: 4x2 f8e4m3 at X [4 from 0 by 1, 2 from 0 by 1] + index along 0, 1 by %5 - 1 + index "
        "along 1 by 2 pad 0.0 plain\n"
        "store %6:x order=(1, 0) value=1e-05 by=nan\n"
    )
    made = parse(text)
    assert program_text(made) == text
    assert made.strict and not made.fp_fusion and made.arguments[1].positive
    access, _ = (op.access for op in made.ops() if op.access is not None)
    assert (access.element, access.constant) == ("f8e4m3", Polynomial.symbol(5) * -2)


@pytest.mark.parametrize(("text", "line", "column", "said"), [
    ("", 1, 1, "`kernel NAME spec NAME file PATH`"),
    (f"{HEAD} again", 1, 26, "found a space, expected the end of the line"),
    (f"{HEAD}\n{N}\n%0 = constant value=1: i32", 3, 1, "found `%0`, expected a value that is not defined yet"),
    (f"{HEAD}\n{N}\n%1 = add %0 %7: i32", 3, 13, "found `%7:`, expected a value that is defined above"),
    (f"{HEAD}\n{N}\n%1 = add %0 %0", 3, 15, "found the end of the line, expected `:`"),
    (f"{HEAD}\n{N}\n%1 = add %0 %0: 4x f32", 3, 17, "expected a type such as"),
    (f"{HEAD}\n{N}\n  %1 = add %0 %0: i32", 3, 3, "expected an indentation of 0 spaces"),
    (f"{HEAD}\n{N}\n%1 = tile_load: 4 f32 at Z [4 from 0 by 1] pad 0.0 tma", 3, 26, "the name of an argument"),
    (f"{HEAD}\n{N}\nfor %1 in range(%0, %0, %0)\n  carry %2 from %0: i32\nstore %0", 5, 1, "`yield`"),
    (f"{HEAD}\n{N}\nyield %0 -> %1", 3, 1, "expected an operation or a loop"),
    (f"{HEAD}\n{N}\nfor %1 in range(%0, %0)", 3, 23, "expected `,`"),
])  # fmt: skip
def test_what_is_wrong_is_shown_where_it_stands(text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(exc.TileTextSyntax) as found:
        parse(text)
    assert (found.value.line, found.value.column) == (line, column) and said in str(found.value), str(found.value)
    assert str(found.value).startswith(f"tile program:{line}: column {column}: ")
