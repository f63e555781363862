"""Promises of `twill.codegen.passes.exchanges`: scratch is written again when all have read it, and nobody waits
twice."""

from __future__ import annotations

from functools import cache

from tests.golden_schedules import Example, lowered
from tests.places import edit, instead, places
from twill.codegen.passes.exchanges import with_waits
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Local, Number, less
from twill.codegen.warp.program import If, Pipeline, Reduce, Stmt, Sync, WarpProgram, walk


def exchange(scratch: int) -> Reduce:
    return Reduce(0, 1, 0, "add", scratch, 3)


def loop(*steady: Stmt, prologue: tuple[Stmt, ...] = ()) -> Pipeline:
    stages = 1 if prologue else 0
    return Pipeline("l", "k", Local("n"), stages, (prologue,) * stages, steady, ((),) * stages)


def waits(*body: Stmt) -> list[bool]:
    """Whether a Sync was put in front of each reduction, in order."""
    made = list(walk(with_waits(body)))
    return [at > 0 and made[at - 1] == Sync(3) for at, stmt in enumerate(made) if isinstance(stmt, Reduce)]


def test_one_reduction_follows_itself_in_the_next_instance() -> None:
    assert waits(exchange(0)) == [True]


def test_two_that_take_turns_wait_for_each_other() -> None:
    assert waits(exchange(0), exchange(1)) == [False, False]
    assert waits(exchange(0), exchange(1), exchange(0)) == [True, False, False]
    assert waits(exchange(0), exchange(0)) == [True, True]


def test_a_sync_of_the_group_settles_what_was_read() -> None:
    assert waits(exchange(0), Sync(5)) == [False]
    assert waits(exchange(0), Sync(5), exchange(0), Sync(5)) == [False, False]


def test_what_may_not_happen_settles_nothing() -> None:
    guarded = If(less(Local("n"), Number(1)), (exchange(1),))
    assert waits(exchange(0), guarded) == [True, False]
    assert waits(exchange(0), loop(exchange(1))) == [True, True]
    assert waits(loop(exchange(0), exchange(1))) == [False, False]
    assert waits(loop(exchange(0), prologue=(exchange(1),)), Sync(5)) == [False, True]


def test_what_is_settled_both_ways_is_settled() -> None:
    one = less(Local("n"), Number(1))
    assert waits(exchange(0), If(one, (Sync(5),), (Sync(5),)), exchange(0), Sync(5)) == [False, False]
    assert waits(exchange(0), If(one, (exchange(1),), (exchange(1),)), exchange(0), Sync(5)) == [False] * 4
    assert waits(exchange(0), If(one, (Sync(5),), (exchange(0),)), Sync(5)) == [False, True]


def test_reductions_without_scratch_are_left_alone() -> None:
    body = (Reduce(0, 1, 1, "max"), Reduce(0, 1, 1, "max"))
    assert with_waits(body) == body


@cache
def layer_norm() -> WarpProgram:
    example = Example("examples/layer_norm.py", "bf16")
    return lowered(example)


def test_two_reductions_of_a_row_have_scratch_in_turn_and_one_wait_each() -> None:
    program = layer_norm()
    found = [stmt for group in program.groups for stmt in walk(group.body)]
    first, second = (stmt for stmt in found if isinstance(stmt, Reduce))
    assert first.scratch != second.scratch and not any(isinstance(stmt, Sync) for stmt in found)
    assert verify(program) == ()


def test_scratch_that_some_still_read_is_not_written() -> None:
    """Both in one scratch, and no Sync between."""
    program = layer_norm()
    second = [place for place in places(program) if isinstance(place.stmt, Reduce)][-1]
    (first,) = [place.stmt for place in places(program) if isinstance(place.stmt, Reduce)][:1]
    assert isinstance(first, Reduce) and isinstance(second.stmt, Reduce)
    changed = Reduce(second.stmt.operand, second.stmt.result, 0, "add", first.scratch, first.barrier, line=30)
    (violation, *_) = verify(edit(program, second, instead(changed)), enough=1)
    assert violation.rule == "order" and "reduction" in violation.message
