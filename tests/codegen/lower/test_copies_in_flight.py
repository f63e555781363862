"""Tiles that leave loops through panels of shared memory: as many copies are in flight as there is room for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import blackwell_kept
from twill.codegen.lower.stores import in_turns, since
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import BulkWait, Pipeline, WarpProgram, walk, with_blocks
from twill.codegen.warp.statements import Stmt
from twill.kernel.specialization import problem_of


@pytest.mark.parametrize(
    ("panels", "buffers", "turns", "waits"),
    [
        (4, 4, (0, 1, 2, 3), [3, 3, 3, 3]),
        (4, 3, (0, 1, 2, 1), [3, 1, 3, 1]),
        (4, 2, (0, 1, 0, 1), [1, 1, 1, 1]),
        (3, 2, (0, 1, 0), [0, 2, 1]),  # one follows itself, whatever the order
        (2, 1, (0, 0), [0, 0]),
    ],
)
def test_a_panel_waits_for_the_copy_out_of_its_own_buffer_alone(
    panels: int, buffers: int, turns: tuple[int, ...], waits: list[int]
) -> None:
    assert in_turns(panels, buffers) == turns
    assert [since(turns, number) for number in range(panels)] == waits
    for number, pending in enumerate(waits):  # the last copies, of which so many may be on their way
        before = (*turns, *turns[:number])
        assert turns[number] not in before[len(before) - pending :]


def in_loops(program: WarpProgram) -> list[BulkWait]:
    loops = tuple(stmt for group in program.groups for stmt in group.stmts if isinstance(stmt, Pipeline))
    return [stmt for stmt in walk(loops) if isinstance(stmt, BulkWait)]


@pytest.mark.usefixtures("at_root")
def test_a_sum_that_leaves_in_every_iteration_has_copies_in_flight_and_no_more_than_there_is_room_for() -> None:
    program = blackwell_kept.lowered(blackwell_kept.BACKWARD)
    waits = in_loops(program)
    assert waits and all(wait.pending > 0 for wait in waits)

    def later(stmt: Stmt) -> Stmt:
        if isinstance(stmt, BulkWait) and stmt.pending == 1:
            return replace(stmt, pending=2)
        return with_blocks(stmt, lambda block: tuple(map(later, block)))

    groups = tuple(replace(group, body=tuple(map(later, group.body))) for group in program.groups)
    problem = problem_of(blackwell_kept.kernel(blackwell_kept.BACKWARD).specialization)
    assert "bulk" in {one.rule for one in verify(replace(program, groups=groups), problem, enough=1)}
