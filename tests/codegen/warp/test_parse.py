"""Promises of `twill.codegen.warp.parse`: a text says the whole program, and what is wrong in one is shown by line and
column, with what could stand there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.warp.test_text import EXPECTED, PROGRAM, TILE_PROGRAM
from twill import exc
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, Element, Expr, Local, Number, Symbol
from twill.codegen.warp.layout import Along, Blocked
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text


def with_body(*body: ir.Stmt) -> ir.WarpProgram:
    return replace(PROGRAM, groups=(replace(PROGRAM.groups[0], body=body),))


def test_every_statement_is_read_back_as_it_was() -> None:
    assert parse(EXPECTED, TILE_PROGRAM) == PROGRAM


SIGNED = (("signed", 1),)
EXPRESSIONS: tuple[Expr, ...] = (
    Number(5), Number(5, "i64"), Number(-5), Number(-1.5, "f32"), Number(float("-inf"), "f32"), Number(2, "f32"),
    Number(1e30, "f16"), Local("x.0"), Local("inf", "i64"), Local("two words"), Symbol(3, "N", "i32"),
    Symbol(3, "N", "i64"), Symbol(8, "a.shape.0", "i64"), Element(4, "f32"), Element(4, "i32"),
    Apply("sub", (Number(1), Number(-1)), "i32"), Apply("rem", (Number(1), Number(2)), "i32"),
    Apply("rem", (Number(1), Element(4, "i32")), "i32", SIGNED), Apply("add", (Number(1), Number(2)), "i64"),
    Apply("compare", (Number(1), Number(2)), "i1", (("predicate", "lt"), ("signed", 0))),
    Apply("select", (Apply("compare", (Local("x"), Number(2)), "i1", (("predicate", "ne"), *SIGNED)),
                     Number(1.0, "f32"), Number(2.0, "f32")), "f32"),
    Apply("cast", (Number(1),), "i64", (("rounding", "rtz"), ("of", (1, 2)), ("none", ()), ("by", 0.5))),
)  # fmt: skip


@pytest.mark.parametrize("value", EXPRESSIONS, ids=str)
def test_an_expression_is_read_back_with_elements_signs_and_attributes(value: Expr) -> None:
    made = with_body(
        ir.Let("x", value), ir.Fill(0, value), ir.Compute("mul", (value, ir.Reg(4)), 4),
        ir.StoreGlobal(ir.Window("o", "f32", (ir.WindowAxis(4, *[value] * 4),), value, -0.5), value),
    )  # fmt: skip
    assert parse(text(made), TILE_PROGRAM) == made


@pytest.mark.parametrize("note", ["why", "line 7", "line 7: why", "a # b", 'a "b"', "if x: y"])
@pytest.mark.parametrize("line", [0, 12])
def test_a_note_is_read_back_whatever_it_says(note: str, line: int) -> None:
    made = with_body(ir.Commit(line=line, note=note))
    assert parse(text(made), TILE_PROGRAM) == made


def test_what_the_whole_program_says_is_read_back() -> None:
    one = Apply("compare", (Symbol(3, "N", "i32"), Number(9)), "i1", (("predicate", "lt"), *SIGNED))
    group = PROGRAM.groups[0]
    tile = ir.Fragment(7, "", "i1", Blocked((3, 5), 1))
    parts = ir.Fragment(8, "a name", "f32", Along(group.fragments[0].layout, 1, True))  # type: ignore[arg-type]
    steady = ir.Pipeline("k", "s", Number(4), 0, (), (ir.Commit(),), (), until=one, later=(ir.WaitGroups(0, ()),))
    made = replace(
        PROGRAM,
        ctas=2, cluster=ir.Cluster(1, meets_first=False),
        groups=(
            replace(
                group, fragments=(*group.fragments, tile, parts), share=(1, 2), issuer=True, registers=0,
                start=(ir.Arrive(2),), next=(ir.FetchInstance(),), skip=(ir.Skip(10, Number(2)),),
                body=(steady, ir.If(one, (), (ir.Commit(),), rare=True), ir.Fence(()), ir.Copy(7, 7)),
            ),
        ),
    )  # fmt: skip
    assert parse(text(made), TILE_PROGRAM) == made


def edited(old: str, new: str) -> str:
    assert old in EXPECTED
    return EXPECTED.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    commit  # empty", "    commit now", "35: column 14: found `now`, expected the end of the line"),
        ("    publish x_read", "    publish y", "49: column 13: found `y`, expected one of a cursor (x_read)"),
        ("k 64 bf16\n", "k x bf16\n", "51: column 60: found `x`, expected an integer"),
        ("    sync scratch", "    synk scratch", "66: column 5: found `synk`, expected one of `let`, `if`"),
        ("x_read by $N", "x_read by $M", "70: column 24: found `M`, expected an argument of the kernel"),
        ("(row < $N)", "(row < $N", "34: column 17: found the end of the line, expected `)`"),
        ("    proxy fence", "     proxy fence", "65: column 6: found 5 spaces, expected an indentation of at most 6"),
        ("    let row = (program_id(0) * 64)", "    let row = ~1", "32: column 15: found `~`, expected a token"),
        ("acc: f32 accumulator 64x64", "acc: f32 heap", "23: column 23: found `heap`, expected a layout"),
        ("  body\n", "  bod\n", "31: column 3: found `bod`, expected `fragment`, `cursor`, `instances`, `start`"),
        ("      steady\n        consumed x_read\n", "", "36: column 5: found 0 blocks `steady`, expected one below"),
        ("warp program all", "warp program some", "1: column 14: found `some`, expected `all`, as the tile program"),
        ("barrier 1 turn", "barier 1 turn", "6: column 1: found `barier`, expected one of `map`, `buffer`"),
        ("    bulk commit\n", "    bulk commit\n      commit\n", "72: column 7: found a block, expected no block"),
    ],
)  # fmt: skip
def test_a_mistake_is_shown_by_line_and_column_with_what_could_stand_there(old: str, new: str, said: str) -> None:
    with pytest.raises(exc.WarpTextSyntax) as found:
        parse(edited(old, new), TILE_PROGRAM)
    assert said in str(found.value)
