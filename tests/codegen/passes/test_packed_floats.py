"""Promises of `twill.codegen.passes.packed_floats`: which work on f32 is done for two registers at a time, and that its
code says so, rounded as the program allows."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests import blackwell_attention as attention
from tests.blackwell import GELU, machine
from tests.blackwell import lowered as lowered_for_b200
from tests.golden_schedules import examples, lowered
from twill.codegen.passes.packed_floats import with_pairs
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.expression import Local, Number, less
from twill.codegen.warp.layout import Accumulator, Along
from twill.codegen.warp.program import (
    PAIRS,
    Compute,
    Fragment,
    If,
    Pipeline,
    Reduce,
    Reg,
    Stmt,
    Sync,
    WarpProgram,
    walk,
)
from twill.ptx.parse import parse

pytestmark = pytest.mark.usefixtures("at_root")

WIDE = Accumulator(64, 128)
A, B, C, FEW, HALF, ROWS, FLAG, SUM = range(8)
FRAGMENTS = {
    A: Fragment(A, "a", "f32", WIDE),
    B: Fragment(B, "b", "f32", WIDE),
    C: Fragment(C, "c", "f32", WIDE),
    FEW: Fragment(FEW, "few", "f32", Accumulator(64, 16)),
    HALF: Fragment(HALF, "half", "bf16", WIDE),
    ROWS: Fragment(ROWS, "rows", "f32", Along(WIDE, 1)),
    FLAG: Fragment(FLAG, "flag", "i1", WIDE),
    SUM: Fragment(SUM, "sum", "f32", Along(WIDE, 1)),
}
MUL = Compute("mul", (Reg(A), Local("scale", "f32")), B)
SUB = Compute("sub", (Reg(B), Reg(ROWS, (0, -1))), C)
EXP = Compute("exp2", (Reg(C),), C)
ERF = Compute("erf", (Reg(C),), C)
SELECT = Compute("select", (Reg(FLAG), Reg(A), Number(0.0, "f32")), A)
TOTAL = Reduce(C, SUM, 1, "add")


def marked(*body: Stmt) -> list[bool]:
    """Of each statement, nested ones included, whether it is done for two registers at a time."""
    made = with_pairs(body, FRAGMENTS)
    return [PAIRS in dict(stmt.attributes) for stmt in walk(made) if isinstance(stmt, Compute | Reduce)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ((MUL, SUB), [True, True]),
        ((MUL, SUB, EXP), [True, True, True]),  # one loop over pairs of registers
        ((EXP, SELECT), [False, False]),  # nothing that one instruction does for two
        ((MUL, SUB, ERF), [False, False, False]),  # two at a time would take many registers
        ((MUL, Sync(0), ERF), [True, False]),  # another loop
        ((replace(MUL, result=FEW, operands=(Reg(FEW), Number(2.0, "f32"))),), [False]),
        ((replace(MUL, operands=(Reg(HALF), Local("scale", "f32"))),), [False]),  # converted one by one
        ((replace(MUL, result=HALF),), [False]),
        ((replace(MUL, result=SUM, operands=(Reg(SUM), Reg(ROWS))),), [False]),
        ((TOTAL,), [True]),
        ((replace(TOTAL, combine="max"),), [False]),
        ((replace(TOTAL, operand=HALF),), [False]),
    ],
)
def test_what_is_done_for_two_registers_at_a_time(body: tuple[Stmt, ...], expected: list[bool]) -> None:
    assert marked(*body) == expected
    inside = If(less(Local("i"), Number(1)), body, body)
    assert marked(Pipeline("l", "i", Local("n"), 1, ((inside,),), body, (body,))) == expected * 4


def printed(program: WarpProgram) -> str:
    """Its CUDA."""
    return print_cuda(program, machine()).text


def test_sums_and_products_of_attention_go_by_pairs() -> None:
    emission = attention.compiled(attention.FULL)
    names = [".".join((one.name, *one.modifiers)) for one in parse(emission.build.ptx).functions[0].instructions]
    packed = {kind: names.count(f"{kind}.f32x2") for kind in ("add", "sub", "mul")}
    # 4 rows of 32 columns a thread and iteration: scores times a scale, less a maximum, and their sums
    assert packed["sub"] == 64
    assert packed["add"] == 60
    assert packed["mul"] >= 64


def test_what_may_not_be_contracted_is_rounded_by_itself() -> None:
    program = attention.lowered(attention.FULL)
    assert "pair_sub(" in printed(program) and "pair_sub_rn(" not in printed(program)
    for changes in ({"fp_fusion": False}, {"strict": True}):
        apart = replace(program, program=replace(program.program, **changes))  # type: ignore[arg-type]
        text = printed(apart)
        assert not re.search(r"pair_(add|sub|mul)\(", text)
        assert "pair_sub_rn(" in text and "pair_mul_rn(" in text and "pair_add_rn(" in text


def test_nothing_of_it_is_for_a_target_that_has_no_such_instructions_or_for_long_functions() -> None:
    full = next(example for example in examples() if example.name == "attention_full")
    for program in (lowered(full), lowered_for_b200(GELU)):
        computed = [stmt for group in program.groups for stmt in walk(group.body) if isinstance(stmt, Compute)]
        assert computed and not any(PAIRS in dict(stmt.attributes) for stmt in computed)
