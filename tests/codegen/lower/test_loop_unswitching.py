"""Promises of `twill.codegen.lower.loop_unswitching`: where a rare guard is a branch, and where an iteration is
copied."""

from __future__ import annotations

from twill.codegen.lower.loop_unswitching import unswitched
from twill.codegen.warp.expression import Apply, Local, Number
from twill.codegen.warp.program import Compute, If, Reg, Stmt, WaitGroups

GUARD = Apply("compare", (Local("step"), Number(3)), "i1", (("predicate", "ge"),))
OTHER = Apply("compare", (Local("step"), Number(1)), "i1", (("predicate", "lt"),))
WAIT = WaitGroups(0, (1,))
WORK = Compute("exp2", (Reg(1),), 1)


def predicated_update(guard: Apply = GUARD) -> If:
    return If(guard, (Compute("neg", (Reg(1),), 1),), rare=True)


def test_behind_a_wait_a_guard_stays_where_it_is() -> None:
    steady: list[Stmt] = [WORK, WORK, WAIT, WORK, predicated_update(), WORK]
    assert unswitched(steady) == steady


def test_in_the_middle_of_arithmetic_the_iteration_is_copied() -> None:
    (only,) = unswitched([WAIT, WORK, WORK, predicated_update(), WORK])
    assert isinstance(only, If)
    assert (only.condition, only.rare) == (GUARD, True)
    assert only.otherwise == (WAIT, WORK, WORK, WORK)
    assert only.body == (WAIT, WORK, WORK, *predicated_update().body, WORK)


def test_what_a_guard_chooses_is_known_in_either_copy() -> None:
    chosen = Compute("mul", (Reg(1), Apply("select", (GUARD, Number(1.0, "f32"), Local("s", "f32")), "f32")), 1)
    (only,) = unswitched([WAIT, WORK, WORK, predicated_update(), chosen])
    assert isinstance(only, If)
    assert only.otherwise[-1] == Compute("mul", (Reg(1), Local("s", "f32")), 1)
    assert only.body[-1] == Compute("mul", (Reg(1), Number(1.0, "f32")), 1)


def test_with_several_guards_the_rare_copy_keeps_them() -> None:
    (only,) = unswitched([WAIT, WORK, WORK, predicated_update(), predicated_update(OTHER)])
    assert isinstance(only, If)
    assert only.otherwise == (WAIT, WORK, WORK)
    assert only.body == (WAIT, WORK, WORK, predicated_update(), predicated_update(OTHER))
    assert only.condition == Apply("or", (GUARD, OTHER), "i1")


def test_without_products_there_is_one_copy() -> None:
    steady: list[Stmt] = [WORK, WORK, predicated_update()]
    assert unswitched(steady) == steady
    assert unswitched([WAIT, WORK, WORK]) == [WAIT, WORK, WORK]
