"""Promises of `twill.codegen.passes.fences`: only fences that order nothing go."""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.passes.fences import without_needless_fences
from twill.codegen.warp.expression import Local, Number, less
from twill.codegen.warp.program import (
    Commit,
    Copy,
    Fence,
    Fill,
    If,
    Multiply,
    Pipeline,
    SlotRef,
    Stmt,
    WaitGroups,
    walk,
)


def product(accumulator: int) -> tuple[Stmt, ...]:
    made = Multiply(accumulator, SlotRef(0), SlotRef(1), False, False, 64, "bf16", True)
    return Fence((accumulator,)), made, Commit()


def touch(fragment: int) -> Stmt:
    return Copy(fragment, 9)


def loop(*steady: Stmt, prologue: tuple[Stmt, ...] = ()) -> Pipeline:
    stages = 1 if prologue else 0
    return Pipeline("l", "k", Local("n"), stages, (prologue,) * stages, steady, ((),) * stages)


def retained(*body: Stmt) -> list[int]:
    """The accumulators of the fences that stay."""
    return [stmt.fragments[0] for stmt in walk(without_needless_fences(body)) if isinstance(stmt, Fence)]


def test_the_first_product_keeps_its_fence_and_the_second_needs_none() -> None:
    assert retained(*product(0), *product(1)) == [0]


def test_a_touch_since_the_last_fence_keeps_the_next() -> None:
    assert retained(*product(0), touch(1), *product(1)) == [0, 1]
    assert retained(*product(0), touch(2), *product(1)) == [0]
    assert retained(*product(0), Fill(1, Number(0.0)), WaitGroups(0, ()), *product(1)) == [0, 1]


def test_a_touch_in_the_last_iteration_or_instance_counts() -> None:
    assert retained(*product(0), loop(*product(1), touch(1))) == [0, 1]
    assert retained(*product(0), *product(1), touch(1)) == [0]  # the first fence of the next instance follows the touch
    assert retained(*product(1), *product(0), touch(0), *product(2)) == [1]


def test_a_touch_in_either_steady_state_counts_in_the_later_one() -> None:
    def changing(*steady: Stmt, later: tuple[Stmt, ...]) -> Pipeline:
        return replace(loop(*steady), until=less(Number(3), Local("k")), later=later)

    assert retained(*product(0), changing(*product(1), later=product(1))) == [0]
    assert retained(*product(0), changing(touch(1), later=product(1))) == [0, 1]
    assert retained(*product(0), changing(later=(*product(1), touch(1)))) == [0, 1]


def test_a_fence_that_does_the_work_of_one_that_left_stays() -> None:
    assert retained(*product(2), loop(*product(0), touch(0), *product(1))) == [2, 1]


def test_what_only_a_loop_or_a_guard_fences_is_not_fenced_behind_it() -> None:
    assert retained(loop(*product(0)), *product(1)) == [0, 1]
    assert retained(If(less(Local("n"), Number(1)), product(0)), *product(1)) == [0, 1]


def test_what_a_guard_touches_is_touched() -> None:
    assert retained(*product(0), If(less(Local("n"), Number(1)), (touch(1),)), *product(1)) == [0, 1]


def test_a_fence_covers_only_the_writes_that_it_names() -> None:
    assert retained(*product(0), Fill(1, Number(0.0)), Fence((0,)), touch(0), *product(0), *product(1)) == [0, 0, 1]


def test_of_two_fences_without_a_touch_between_one_stays() -> None:
    assert retained(loop(touch(0), *product(0), *product(0), prologue=product(0))) == [0, 0]
