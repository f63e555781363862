"""Promises of `twill.codegen.verify.abstract.representatives`: of instances that differ in nothing but their place a
few are run, of others all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tile_programs import Programs
from twill.codegen.verify.abstract.representatives import with_representatives
from twill.kernel.problem import ProblemTable
from twill.tile.affine import Polynomial
from twill.tile.program import Op, TileProgram

LEAST = 6


def table(*grid: str) -> ProblemTable:
    shape = ("Z * 2048",)
    return ProblemTable({"Z": "1"}, {"X": shape, "Y": shape}, {}, (), (), grid, {"N": 2048, "B": 64}, "k.py")


def copies(how: str = "") -> TileProgram:
    """Y = X, 64 elements an instance, `how`: what the index along the first axis is besides a place."""
    p = Programs()
    p.argument("X", "ptr:f32")
    p.argument("Y", "ptr:f32")
    pid = p.op("program_id", axis=0)
    block = p.op("mul", pid, p.constant(64))
    at = Polynomial.symbol(block) + Polynomial.symbol(p.op("program_id", axis=1)) * 2048
    x = p.load("X", (64,), "f32", at=(at,))
    if how == "an element":
        x = p.op("mul", x, p.op("splat", p.op("cast", pid, element="f32"), shape=(64,)))
    if how == "a condition":
        p.op("compare", pid, p.constant(3), element="i1", predicate="lt", signed=1)
    if how == "a bound of a loop":
        with p.loop(pid, [x]) as k:
            k.yields = [p.op("add", k.carried[0], p.load("X", (64,), "f32", at=(k.i * 64,)))]
        x = k.results[0]
    if how == "their number":
        p.op("num_programs", axis=0)
    p.store("Y", x, at=(at,))
    return p.done()


def clipped(end: int) -> TileProgram:
    """The same, with nothing behind element `end` of X."""
    program = copies()

    def bounded(op: Op) -> Op:
        if op.kind != "tile_load" or op.access is None:
            return op
        axis = replace(op.access.axes[0], upper=Polynomial.constant_of(end))
        return replace(op, access=replace(op.access, axes=(axis,)))

    return replace(program, body=tuple(bounded(item) if isinstance(item, Op) else item for item in program.body))


def test_a_few_of_alike_instances_are_left() -> None:
    found = with_representatives(copies(), table("cdiv(N, B)", "Z"), LEAST)
    assert found.case({"Z": 1}).grid == (LEAST, 1)
    assert found.case({"Z": 4}).grid == (LEAST - 3, 4)
    assert found.case({"Z": 16}).grid == (2, 16)


def test_along_every_axis_are_two_at_least() -> None:
    program = copies()
    assert with_representatives(program, table("32", "16"), LEAST).case({"Z": 1}).grid == (3, 2)
    assert with_representatives(program, table("32", "2"), LEAST).case({"Z": 1}).grid == (3, 2)


def test_an_axis_that_sizes_make_smaller_is_left_to_them() -> None:
    asked = table("Z * 32", "1")
    assert with_representatives(copies(), asked, LEAST).grid == asked.grid


@pytest.mark.parametrize("how", ["an element", "a condition", "a bound of a loop", "their number"])
def test_where_an_index_is_more_than_a_place_all_are_run(how: str) -> None:
    asked = table("cdiv(N, B)", "Z")
    assert with_representatives(copies(how), asked, LEAST).case({"Z": 1}).grid == (32, 1)


@pytest.mark.parametrize(("end", "along"), [(2048, LEAST), (2047, 32), (1984, 32)])
def test_where_one_goes_over_a_bound_and_others_do_not_all_are_run(end: int, along: int) -> None:
    found = with_representatives(clipped(end), table("cdiv(N, B)", "1"), LEAST)
    assert found.case({"Z": 1}).grid == (along, 1)
