"""Inline assembly: what a text computes, and which texts are an operation on elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from twill.exc import MalformedPtx, UnsupportedPtx
from twill.ptx.inline import InlineAsm, assembled, evaluate, moves_only

F32 = ("f32",)
NUMBERS = np.array([-3.0, -0.5, 0.0, 1.5, 20.0], np.float32)


def unary(text: str, constraints: str = "=f,f", pack: int = 1) -> InlineAsm:
    return InlineAsm(text, constraints, pack, F32, F32)


def on_floats(asm: InlineAsm) -> Any:
    return evaluate(asm, [NUMBERS.view(np.uint32)] * len(asm.sources))[0].view(np.float32)


@pytest.mark.parametrize(
    ("text", "constraints", "expected"),
    [
        ("mul.f32 $0, $1, $1;", "=f,f", NUMBERS * NUMBERS),
        ("mul.f32 $0, $1, $1", "=r,r", NUMBERS * NUMBERS),
        ("{ .reg .f32 half; mov.f32 half, 0f3F000000; mul.f32 $0, $1, half; }", "=f,f", NUMBERS / 2),
        (".reg .pred p; setp.gt.f32 p, $1, 0.0; @p mov.f32 $0, $1; @!p neg.f32 $0, $1;", "=r,r", np.abs(NUMBERS)),
        ("add.f32 $0, $0, $0; // twice, in $$ and in place", "=f,0", NUMBERS * 2),
    ],
)  # fmt: skip
def test_a_text_computes_what_its_instructions_do(text: str, constraints: str, expected: Any) -> None:
    assert (on_floats(unary(text, constraints)) == expected).all()


def test_what_a_predicate_guards_may_go_on_with_what_it_wrote() -> None:
    text = """{ .reg .pred p; setp.gt.f32 p, $1, 15.; @p mov.f32 $0, $1; @!p ex2.approx.ftz.f32 $0, $1;
                @!p add.f32 $0, $0, 1.0; @!p lg2.approx.ftz.f32 $0, $0; }"""
    expected = np.where(NUMBERS > 15, NUMBERS, np.log2(1 + np.exp2(NUMBERS.astype(np.float64))))
    assert np.allclose(on_floats(unary(text, "=r,r")), expected, rtol=1e-6)


def test_short_elements_share_a_register_and_several_results_have_their_own() -> None:
    halves = np.array([0x3F80, 0x4000, 0x4040], np.uint16)  # 1, 2, 3 in bf16
    asm = InlineAsm("mul.rn.bf16x2 $0, $1, $1;", "=r,r", 2, ("bf16",), ("bf16",))
    assert evaluate(asm, [halves])[0].tolist() == [0x3F80, 0x4080, 0x4110]
    two = InlineAsm("mul.wide.u32 $0, $2, $3; popc.b32 $1, $2;", "=l,=r,r,r", 1, ("i64", "i32"), ("i32", "i32"))
    wide, bits = evaluate(two, [np.array([7, 1 << 31], np.uint32), np.array([3, 4], np.uint32)])
    assert wide.tolist() == [21, 1 << 33] and bits.tolist() == [3, 1]
    packed = InlineAsm("neg.f32 $0, $2; neg.f32 $1, $3;", "=f,=f,f,f", 2, F32, F32)
    assert (on_floats(packed) == -NUMBERS).all()


@pytest.mark.parametrize(
    ("asm", "said"),
    [
        (unary("griddepcontrol.wait; // $0"), "`griddepcontrol.wait`"),
        (unary("ld.global.f32 $0, [$1];"), "`ld.global.f32`"),
        (unary("bar.sync 0; mov.f32 $0, $1;"), "`bar.sync`"),
        (unary("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;"), "`shfl.sync.bfly.b32`"),
        (unary("mov.u32 $0, %laneid;", "=r,r"), "tells threads apart"),
        (unary("add.rn.f32x2 $0, $1, $1;"), "`add.rn.f32x2`"),
        (unary("{ .reg .pred p; setp.gt.f32 p, $1, 0.0; @p mov.f32 $0, $1; }"), "`$0` is not written"),
        (unary("add.f32 $0, $0, $1;"), "before it is written"),
        (unary("loop: mov.f32 $0, $1; bra loop;"), "variables or labels"),
        (unary("mov.f32 $0, $7;"), "`$7`"),
        (unary("mov.f32 $0, $1;", "=h,f"), "`=h` for 1 of f32"),
        (unary("mov.f32 $0, $1;", "=f"), "1 constraints for 2 registers"),
        (unary("mov.f32 $0, $1;", "=f,m"), "the constraint `m`"),
        (unary("mov.f32 $0, $2; mov.f32 $1, $3;", "=f,=f,f,f"), "4 constraints"),
        (unary("mov.f32 $0, $3; mov.f32 $1, $2;", "=f,=f,f,f", 2), "another place of the pack"),
        (InlineAsm("add.u32 $0, $1, $1;", "=r,r", 4, ("i8",), ("i8",)), "another place of the pack"),
        (InlineAsm("not.b32 $0, $1;", "=r,r", 1, ("i1",), ("i1",)), "an operand of i1"),
        (InlineAsm("not.b32 $0, $1;", "=r,r", 3, ("i16",), ("i16",)), "3 elements of i16"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_operation_on_elements_is_refused(asm: InlineAsm, said: str) -> None:
    with pytest.raises((UnsupportedPtx, MalformedPtx)) as caught:
        assembled(asm)
    assert said in str(caught.value)


def test_a_single_move_is_seen_as_one() -> None:
    assert moves_only(assembled(unary("mov.f32 $0, $1;", "=r,r")))
    assert not moves_only(assembled(unary("mov.f32 $0, 0f00000000;")))
    assert not moves_only(assembled(unary("neg.f32 $0, $1;")))
