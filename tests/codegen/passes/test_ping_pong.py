"""Promises of `twill.codegen.passes.ping_pong`: groups take program instances alternately, and nothing less is
right."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tests.golden_schedules import Example, lowered
from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import gemm
from twill.codegen.lowering import lower
from twill.codegen.passes.ping_pong import consumed, ordered_body
from twill.codegen.verify.abstract.inputs import launches
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Arrive, Pipeline, Skip, Stmt, Sync, WaitGroups, WarpGroup, WarpProgram, walk
from twill.codegen.warp.scalars import write_expr
from twill.codegen.warp.text import names_of


@cache
def gemm_in_turn() -> WarpProgram:
    example = Example("examples/gemm.py", "bf16")
    return lowered(example)


def computing(program: WarpProgram) -> list[WarpGroup]:
    return [group for group in program.groups if not group.issuer]


def changed(change: Callable[[WarpGroup], WarpGroup]) -> WarpProgram:
    """The program with every computing group changed."""
    program = gemm_in_turn()
    groups = tuple(group if group.issuer else change(group) for group in program.groups)
    return replace(program, groups=groups)


def test_one_computing_group_becomes_two_that_share_the_instances() -> None:
    program = gemm_in_turn()
    assert [group.share for group in computing(program)] == [(0, 2), (1, 2)]
    for aref in program.arefs:
        assert aref.consumers == tuple(group.id for group in computing(program))
        assert aref.empty_count == 4  # of the one that has the instance
    assert len({f.id for g in computing(program) for f in g.fragments}) == sum(len(g.fragments) for g in program.groups)


def test_every_cursor_is_moved_past_what_the_other_group_consumes() -> None:
    names = names_of(gemm_in_turn())
    for group in computing(gemm_in_turn()):
        skipped = [stmt.cursor for stmt in group.skip if isinstance(stmt, Skip)]
        assert sorted(skipped) == sorted(cursor.id for cursor in group.cursors)
        counts = {write_expr(stmt.count, names) for stmt in group.skip if isinstance(stmt, Skip)}
        assert counts == {"max((($K + 63) / 64), 0, signed=1)"}


def test_a_turn_lasts_from_the_first_look_at_a_ring_to_the_last() -> None:
    for group in computing(gemm_in_turn()):
        kinds = [type(stmt) for stmt in group.body if isinstance(stmt, Sync | Pipeline | Arrive | WaitGroups)]
        assert kinds[:4] == [Sync, Pipeline, Arrive, WaitGroups]  # the tile's last products end in the other's turn


def test_the_program_is_right() -> None:
    assert verify(gemm_in_turn()) == ()


@pytest.mark.parametrize("spec", ["bf16", "bf16-192"])
def test_each_group_is_the_last_one_to_have_an_instance_in_some_launch(spec: str) -> None:
    """What is left over at the end is another thing for each: a turn that nobody takes, or none."""
    example = Example("examples/gemm.py", spec)
    program = lowered(example)
    counts = [math.prod(launch.grid) for launch in launches(program)]
    assert {count % 2 for count in counts} == {0, 1}


def without(kind: type[Stmt], which: Callable[[Stmt], bool] = lambda stmt: True) -> Callable[[WarpGroup], WarpGroup]:
    def change(group: WarpGroup) -> WarpGroup:
        retained = tuple(stmt for stmt in group.body if not (isinstance(stmt, kind) and which(stmt)))
        return replace(group, body=retained)

    return change


def is_turn(stmt: Stmt) -> bool:
    return "turn" in stmt.note


def turnless(group: WarpGroup) -> WarpGroup:
    """Without any trace of turns."""
    body = tuple(stmt for stmt in group.body if not is_turn(stmt))
    finish = tuple(stmt for stmt in group.finish if not any(map(is_turn, walk((stmt,)))))
    return replace(group, body=body, start=(), finish=finish)


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (turnless, {"phase"}),
        (lambda group: replace(group, skip=()), {"phase", "deadlock", "order", "values"}),
        (lambda group: replace(group, skip=group.skip[:1]), {"phase", "deadlock", "order", "values"}),
        (lambda group: replace(group, share=(0, 2)), {"values", "phase", "deadlock", "barrier"}),
        (lambda group: replace(group, finish=group.finish[1:]), {"leftover"}),
    ],
    ids=["no turns", "no skips", "one skip", "the same share", "a turn left over"],
)
def test_what_is_left_out_is_found(change: Callable[[WarpGroup], WarpGroup], rules: set[str]) -> None:
    found = {violation.rule for violation in verify(changed(change), enough=8)}
    assert found & rules


def test_a_schedule_with_two_computing_groups_stays_as_it_is() -> None:
    program = gemm()
    assert [group.share for group in lower(program, scheduled(program, 2), H100).groups] == [(0, 1)] * 3


def test_slots_are_counted_where_they_are_filled() -> None:
    program = gemm_in_turn()
    counts = consumed([group for group in program.groups if group.issuer], "k.py")
    assert {aref.id for aref in program.arefs} == set(counts)


def test_a_body_without_rings_has_no_turns() -> None:
    assert list(ordered_body((Sync(5),), 0, 1)) == [Sync(5)]
