"""Promises of launches at the edges of conditions: sides of comparisons are equal, and differ by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.golden_schedules import Example, lowered
from tests.places import Place, edit, instead, places
from twill.codegen.verify.abstract.extent import trips_of
from twill.codegen.verify.abstract.guards import Conditions, Outline, outline, outlines
from twill.codegen.verify.abstract_machine import trials, verify
from twill.codegen.warp.expression import Apply, Expr, Local, Number, ProgramId, less
from twill.codegen.warp.program import Get, If, Let, Pipeline, WarpProgram

pytestmark = pytest.mark.usefixtures("at_root")


def found(*body: Let | If | Pipeline, grid: int) -> set[tuple[object, ...]]:
    conditions = Conditions((grid, 1, 1), {})
    conditions.outline(0, Outline(outline(body), (0, 1)), [((i, 0, 0), {}) for i in range(grid)])
    return conditions.found


def test_how_far_apart_the_sides_of_a_comparison_are() -> None:
    guard = less(Number(2), ProgramId(0))
    assert found(If(guard, (Get(0),)), grid=4) == {
        ("guard", guard, 2, True), ("guard", guard, 1, True), ("guard", guard, 0, True), ("guard", guard, -1, False),
        ("guards", 0, (False,)), ("guards", 0, (True,)),
    }  # fmt: skip
    assert 0 not in {edge[2] for edge in found(If(guard, (Get(0),)), grid=2)}


def test_conditions_of_an_instance_are_noted_together() -> None:
    first, second = less(ProgramId(0), Number(1)), less(ProgramId(0), Number(2))
    both = found(If(first, (Get(0),)), Let("kept", second), If(Local("kept", "i1"), (Get(1),)), grid=3)
    assert {said[2] for said in both if said[0] == "guards"} == {
        (True, True, True), (False, True, True), (False, False, False),
    }  # fmt: skip


def test_a_pipeline_s_conditions_are_looked_at_step_by_step() -> None:
    guard = less(Local("k"), Number(3))
    body = (If(guard, (Get(0),)),)
    loop = Pipeline("", "k", ProgramId(0), 1, (body,), body, (body,))
    assert {edge[2] for edge in found(loop, grid=3) if edge[0] == "guard"} == {-2, -1}
    assert {edge[2] for edge in found(loop, grid=6) if edge[0] == "guard"} == {-2, -1, 0, 1, 2}


def test_what_no_condition_needs_is_left_out() -> None:
    assert outline((Let("a", Number(1)), Let("b", Number(2)), If(less(Local("b"), Number(3)), (Get(0),)))) == (
        Let("b", Number(2)), If(less(Local("b"), Number(3)), ()),
    )  # fmt: skip


def layer_norm() -> WarpProgram:
    example = Example("examples/layer_norm.py", "bf16")
    return lowered(example)


def test_every_ring_is_filled_to_one_less_than_its_slots_exactly_and_to_one_more() -> None:
    program = layer_norm()
    made = trials(program)
    reached = {trip for trial in made for trips in trips_of(program.program, trial.launch.grid, trial.launch.scalars)
               for trip in trips}  # fmt: skip
    depths = {aref.depth for aref in program.arefs}
    assert max(depths) == 8
    assert {depth + more for depth in depths for more in (-1, 0, 1)} <= reached
    assert outlines(program)


def off_by_one(expr: Expr) -> Iterator[Expr]:
    """The expression with `<` for `<=` or the other way around, in one place."""
    if not isinstance(expr, Apply):
        return
    given = dict(expr.attributes)
    turned = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}.get(str(given.get("predicate")))
    if expr.kind == "compare" and turned:
        yield replace(expr, attributes=tuple({**given, "predicate": turned}.items()))
    for number, operand in enumerate(expr.operands):
        for other in off_by_one(operand):
            yield replace(expr, operands=(*expr.operands[:number], other, *expr.operands[number + 1 :]))


def faulty(program: WarpProgram) -> Iterator[tuple[Place, WarpProgram]]:
    for place in places(program):
        if isinstance(place.stmt, If):
            for condition in off_by_one(place.stmt.condition):
                yield place, edit(program, place, instead(replace(place.stmt, condition=condition)))


def test_guards_of_kept_rows_that_are_off_by_one_are_found() -> None:
    """Each is a deadlock, or a tile of another row, where a row has just as many tiles as its ring has slots. The guard
    of a mask (the only rare one) may as well hold once more: what it masks then is within the row."""
    program, seen = layer_norm(), 0
    given = trials(program)
    for place, wrong in faulty(program):
        if isinstance(place.stmt, If) and not place.stmt.rare:
            assert verify(wrong, given=given, enough=1), place
            seen += 1
    assert seen == 8
