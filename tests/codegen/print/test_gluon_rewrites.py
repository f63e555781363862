"""Rewrites that make modules of Gluon for Blackwell shorter say the same in another way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests import blackwell_attention as attention
from tests.blackwell import machine
from twill.codegen.lowering import lower
from twill.codegen.print.gluon.joined import with_joined_branches
from twill.codegen.print.gluon.narrow import with_narrow_parts
from twill.codegen.print.gluon.repeats import repeated
from twill.codegen.print.gluon.rerolled import with_loops_of_all_steps
from twill.codegen.print.gluon.ring_names import with_own_names
from twill.codegen.print.gluon.tensor_rings import hosted
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Apply, Expr, Local, Number
from twill.codegen.warp.program import If, Let, Pipeline, Stmt, StoreAccumulator, WarpGroup, WarpProgram
from twill.exc import NotInGluon
from twill.kernel.specialization import problem_of

pytestmark = pytest.mark.usefixtures("at_root")
FULL = attention.IN_GLUON[0]


def lowered() -> WarpProgram:
    return lower(attention.kernel(FULL).wired, attention.schedule(FULL), machine())


def group(program: WarpProgram, role: str) -> WarpGroup:
    return next(one for one in program.groups if one.role == role)


def value(expr: Expr, names: dict[str, int]) -> int:
    match expr:
        case Number(number):
            return int(number)
        case Local(name):
            return names[name]
        case Apply("add", (left, right)):
            return value(left, names) + value(right, names)
        case Apply("and", (left, right)):
            return value(left, names) & value(right, names)
        case Apply("compare", (left, right)):
            return int(value(left, names) < value(right, names))
    raise TypeError(expr)


Done = list[tuple[Stmt, int]]


def done(block: tuple[Stmt, ...], trip: int, names: dict[str, int]) -> Done:
    """The statements in the order in which they are done, each with the step it is done at."""
    made: Done = []
    for stmt in block:
        match stmt:
            case Let(name):
                names[name] = trip
            case If(condition, body, otherwise):
                made += done(body if value(condition, names) else otherwise, trip, names)
            case Pipeline():
                made += steps(stmt, trip, names)
            case _:
                made.append((stmt, names.get("loop1_step", 0)))
    return made


def steps(loop: Pipeline, trip: int, names: dict[str, int]) -> Done:
    """docs of `Pipeline`."""
    trip = trip if loop.stages else value(loop.trip, names)
    made: Done = []
    if trip <= 0:
        return made
    for step in range(loop.stages):
        made += done(loop.prologue[step], trip, {**names, loop.step: step})
    for step in range(loop.stages, trip):
        made += done(loop.steady, trip, {**names, loop.step: step})
    for step in range(loop.stages):
        made += done(loop.epilogue[step], trip, {**names, loop.step: max(trip, loop.stages) + step})
    return made


def only(block: tuple[Stmt, ...], kinds: tuple[type[Any], ...]) -> tuple[Stmt, ...]:
    return tuple(stmt for stmt in block if isinstance(stmt, kinds))


@pytest.mark.parametrize("role", ["load", "mma"])
@pytest.mark.parametrize("trip", [0, 1, 2, 5])
def test_a_loop_of_all_steps_does_the_same_in_the_same_order(role: str, trip: int) -> None:
    before = lowered()
    after = with_loops_of_all_steps(before)
    was, now = (only(group(one, role).body, (Let, Pipeline)) for one in (before, after))
    assert [s.stages for s in was if isinstance(s, Pipeline)] == [1]
    assert [s.stages for s in now if isinstance(s, Pipeline)] == [0]
    assert done(now, trip, {}) == done(was, trip, {})


def test_a_loop_whose_epilogue_is_not_made_of_its_steady_state_stays() -> None:
    program = lowered()
    load = group(program, "load")
    (loop,) = only(load.body, (Pipeline,))
    assert isinstance(loop, Pipeline)
    other = replace(loop, epilogue=(loop.epilogue[0][1:],))
    body = tuple(other if stmt == loop else stmt for stmt in load.body)
    changed = replace(program, groups=tuple(replace(g, body=body) if g == load else g for g in program.groups))
    assert other in group(with_loops_of_all_steps(changed), "load").body


def rescaling(program: WarpProgram) -> If:
    (loop,) = only(group(program, "correction").body, (Pipeline,))
    assert isinstance(loop, Pipeline)
    (branch,) = only(loop.steady, (If,))
    assert isinstance(branch, If)
    return branch


def test_branches_around_reads_are_one_and_its_sides_are_loops_over_parts() -> None:
    branch = rescaling(with_joined_branches(lowered()))
    for side in (branch.body, branch.otherwise):
        parts = repeated(side, 0)
        assert parts is not None and (parts.parts, parts.width) == (4, 32)
        assert parts.parts * len(parts.window) == len(side)


def test_a_partition_of_few_registers_has_half_as_many_columns_in_them() -> None:
    program = with_joined_branches(lowered())
    assert with_narrow_parts(program) == program  # 200 registers
    few = replace(program, groups=tuple(replace(g, registers=64) if g.role == "correction" else g
                                        for g in program.groups))  # fmt: skip
    narrow = with_narrow_parts(few)
    branch = rescaling(narrow)
    for side in (branch.body, branch.otherwise):
        parts = repeated(side, 0)
        assert parts is not None and (parts.parts, parts.width) == (8, 16)
        assert parts.parts * len(parts.window) == len(side)
    assert verify(narrow, problem_of(attention.kernel(FULL).specialization)) == ()


def test_parts_that_are_no_neighbours_are_no_loop() -> None:
    side = rescaling(with_joined_branches(lowered())).body
    size = len(side) // 4
    parts = repeated((*side[:size], *side[2 * size :]), 0)
    assert parts is None


def test_parts_whose_variables_are_read_behind_them_are_no_loop() -> None:
    side = rescaling(with_joined_branches(lowered())).body
    last = side[-1]
    assert isinstance(last, StoreAccumulator)
    assert repeated((*side, replace(last, target=replace(last.target, columns=None))), 0) is None


def test_the_ring_of_an_operand_is_called_after_what_is_stored_there() -> None:
    program = with_own_names(lowered())
    assert {b.name for b in program.buffers if b.tensor} == {"qk", "acc", "p"}
    assert {"qk", "acc", "acc result", "p"} <= {aref.name for aref in program.arefs}


def test_p_is_the_first_half_of_a_slot_of_s_and_what_is_no_tile_of_it_is_refused() -> None:
    program = lowered()
    qk, acc, p = (b for b in program.buffers if b.tensor)
    over = hosted(program, p)
    assert over is not None and (over.host, over.each, over.first) == (qk, 2, 0)
    assert hosted(program, qk) is hosted(program, acc) is None
    second = replace(p, offset=64)
    moved = replace(program, buffers=(qk, acc, second))
    found = hosted(moved, second)
    assert found is not None and (found.each, found.first) == (2, 1)
    across = replace(p, offset=96)
    with pytest.raises(NotInGluon, match="lies over `qk` as no tile of Gluon can"):
        hosted(replace(program, buffers=(qk, acc, across)), across)
