"""Promises of `twill.codegen.lower.index_set_splitting`: where a steady state may change once, and into what."""

from __future__ import annotations

import pytest

from twill.codegen.lower.index_set_splitting import direction, growth, split_index_set
from twill.codegen.warp.expression import Apply, Element, Expr, Local, Number, ProgramId, add, multiply, subtract
from twill.codegen.warp.program import Compute, If, Reg, Stmt, WaitGroups

STEP = Local("step")
WORK = Compute("exp2", (Reg(1),), 1)
WAIT = WaitGroups(0, (1,))
MASK = Compute("neg", (Reg(1),), 1)


def compare(left: Expr, predicate: str, right: Expr, signed: int = 1) -> Apply:
    return Apply("compare", (left, right), "i1", (("predicate", predicate), ("signed", signed)))


def steady(*guards: Expr) -> list[Stmt]:
    return [WAIT, *(If(guard, (MASK,), rare=True) for guard in guards), WORK]


def test_what_begins_to_hold_gets_a_steady_state_of_its_own_behind_the_other() -> None:
    guard = compare(multiply(STEP, Number(128)), "ge", ProgramId(0))
    assert split_index_set(steady(guard), "step") == ([WAIT, WORK], guard, [WAIT, MASK, WORK])


def test_what_ends_to_hold_comes_first() -> None:
    guard = compare(add(multiply(STEP, Number(64)), ProgramId(0)), "lt", Local("t"))
    until = compare(add(multiply(STEP, Number(64)), ProgramId(0)), "ge", Local("t"))
    assert split_index_set(steady(guard), "step") == ([WAIT, MASK, WORK], until, [WAIT, WORK])


def test_what_a_guard_chooses_is_known_in_either() -> None:
    guard = compare(STEP, "ge", Number(3))
    chosen = Compute("mul", (Reg(1), Apply("select", (guard, Number(1.0, "f32"), Local("s", "f32")), "f32")), 1)
    found = split_index_set([*steady(guard), chosen], "step")
    assert found is not None
    assert found[0][-1] == Compute("mul", (Reg(1), Local("s", "f32")), 1)
    assert found[2][-1] == Compute("mul", (Reg(1), Number(1.0, "f32")), 1)


def test_without_a_guard_or_with_several_nothing_changes() -> None:
    assert split_index_set([WAIT, WORK], "step") is None
    assert split_index_set(steady(compare(STEP, "ge", Number(3)), compare(STEP, "ge", Number(4))), "step") is None


def test_a_guard_that_comes_and_goes_is_left_alone() -> None:
    both = Apply("or", (compare(STEP, "lt", Number(3)), compare(STEP, "ge", Number(7))), "i1")
    assert split_index_set(steady(both), "step") is None


@pytest.mark.parametrize(
    ("left", "predicate", "right", "way"),
    [
        (STEP, "ge", Number(3), 1), (STEP, "gt", Number(3), 1),
        (STEP, "lt", Number(3), -1), (STEP, "le", Number(3), -1),
        (Number(3), "lt", STEP, 1), (Number(3), "ge", STEP, -1), (subtract(ProgramId(0), STEP), "lt", Number(9), 1),
        (STEP, "eq", Number(3), 0), (STEP, "ge", add(STEP, Number(1)), 0), (ProgramId(0), "ge", Number(1), 0),
        (Apply("div", (STEP, Number(2)), "i32"), "ge", Number(1), 0),
        (multiply(STEP, ProgramId(0)), "ge", Number(1), 0),
    ],
)  # fmt: skip
def test_which_comparisons_change_once(left: Expr, predicate: str, right: Expr, way: int) -> None:
    assert direction(compare(left, predicate, right), "step") == way


def test_numbers_without_a_sign_wrap() -> None:
    assert direction(compare(STEP, "ge", Number(3), signed=0), "step") == 0


def test_growth() -> None:
    assert growth(add(multiply(STEP, Number(-4)), ProgramId(1)), "step") == -4
    assert growth(Apply("div", (ProgramId(1), Number(2)), "i32"), "step") == 0
    assert growth(Element(3, "i32"), "step") is None
