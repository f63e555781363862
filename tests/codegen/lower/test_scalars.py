"""Promises of `twill.codegen.lower.scalars`: scalars of a kernel as expressions, defined once or made for an
iteration."""

from __future__ import annotations

import pytest

from tests.tile_programs import Programs
from twill import exc
from twill.codegen.lower.scalars import OUTSIDE, Iteration, ScalarTable
from twill.codegen.verify.abstract.scalars import EvaluationScope, integer
from twill.codegen.warp.expression import Expr, Local, Number, NumPrograms, ProgramId, Symbol
from twill.graph.build import wire
from twill.tile.affine import Polynomial
from twill.tile.program import Loop


def finish(p: Programs) -> ScalarTable:
    """The scalars of a program, which is made to do something."""
    p.store("y", p.load("x", (64,)))
    return ScalarTable(wire(p.done()))


def number(table: ScalarTable, expr: Expr, index: int = 0, step: int = 0, **arguments: int) -> int:
    """What an expression is, with all that is defined once."""
    scope = EvaluationScope(arguments, (8, 8, 8), (index, 0, 0), lambda fragment: 0, {"step": step})
    for value in sorted(table.lets):
        let = table.lets[value]
        scope.names[let.name] = integer(let.value, scope)
    return integer(expr, scope)


def only_loop(table: ScalarTable) -> Loop:
    return next(item for item in table.program.body if isinstance(item, Loop))


def test_arguments_constants_and_grid_indices_are_leaves() -> None:
    p = Programs()
    n, c, pid, size = p.argument("N"), p.constant(7), p.op("program_id", axis=1), p.op("num_programs", axis=2)
    table = finish(p)
    assert table.value(n, OUTSIDE) == Symbol(n, "N", "i32")
    assert table.value(c, OUTSIDE) == Number(7)
    assert table.value(pid, OUTSIDE) == ProgramId(1)
    assert table.value(size, OUTSIDE) == NumPrograms(2)
    assert not table.lets


def test_what_no_loop_changes_is_defined_once() -> None:
    p = Programs()
    pid, n = p.op("program_id", axis=0), p.argument("N")
    row = p.op("mul", pid, n, name="row")
    end = p.op("add", row, p.constant(5), name="end")
    table = finish(p)
    assert table.value(end, OUTSIDE) == table.value(end, OUTSIDE) == Local("end")
    assert [table.lets[value].name for value in sorted(table.lets)] == ["row", "end"]
    assert number(table, Local("end"), index=3, N=10) == 35


def test_names_are_taken_once() -> None:
    p = Programs()
    pid = p.op("program_id", axis=0)
    one, two = (p.op("add", pid, p.constant(c), name="t") for c in (1, 2))
    table = finish(p)
    assert table.value(one, OUTSIDE) != table.value(two, OUTSIDE)
    assert number(table, table.value(two, OUTSIDE), index=4) == 6


def looping(step: int = 1) -> tuple[Programs, int, int, int]:
    """A loop over range(0, N, step) with a counter that grows by M and an offset of the iteration."""
    p = Programs()
    n, m = p.argument("N"), p.argument("M")
    start = p.constant(100)
    with p.loop(n, [start], step) as loop:
        inner = p.op("mul", loop.induction, m, name="inner")
        loop.yields = [p.op("add", loop.carried[0], m, name="grown")]
        p.store("z", p.load("x", (64,), at=(loop.i * 64,)), at=(loop.i * 64,))
    return p, inner, loop.carried[0], loop.results[0]


@pytest.mark.parametrize("stage", [0, 2])
def test_a_scalar_of_an_iteration_is_made_where_it_is_used(stage: int) -> None:
    p, inner, grown, _ = looping(step=16)
    table = finish(p)
    at = Iteration(only_loop(table), "step", stage)
    assert number(table, table.value(inner, at), step=5, M=10, N=99) == (5 - stage) * 16 * 10
    assert number(table, table.value(grown, at), step=5, M=10, N=99) == 100 + (5 - stage) * 10
    assert not table.lets


def test_a_counter_has_a_value_behind_its_loop() -> None:
    p, _, _, behind = looping()
    table = finish(p)
    assert number(table, table.value(behind, OUTSIDE), N=7, M=10) == 170


def test_a_counter_is_refused_outside_its_loop() -> None:
    p, inner, _, _ = looping()
    table = finish(p)
    with pytest.raises(exc.UnsupportedInKernel, match="outside its loop") as raised:
        table.apply(table.wired.uniformity.makers[inner], inner, OUTSIDE)
    assert raised.value.line == only_loop(table).line


def test_a_scalar_that_grows_unevenly_is_refused() -> None:
    p = Programs()
    n = p.argument("N")
    with p.loop(n, [p.constant(1)]) as loop:
        loop.yields = [p.op("mul", loop.carried[0], n, name="power")]
        p.store("z", p.load("x", (64,), at=(loop.i * 64,)), at=(loop.i * 64,))
    table = finish(p)
    with pytest.raises(exc.UnsupportedInKernel, match="more than a fixed difference") as raised:
        table.value(loop.carried[0], Iteration(only_loop(table), "step"))
    assert "loop counter" in raised.value.hint and raised.value.line


@pytest.mark.parametrize(("upper", "step"), [(0, 1), (5, 1), (64, 16), (65, 16), (79, 16), (80, 16), (1, 16)])
def test_trip_counts_are_rounded_up(upper: int, step: int) -> None:
    p, *_ = looping(step)
    table = finish(p)
    assert number(table, table.trip(only_loop(table)), N=upper, M=1) == len(range(0, upper, step))


def test_an_empty_range_has_no_trips() -> None:
    p, *_ = looping(16)
    table = finish(p)
    assert number(table, table.trip(only_loop(table)), N=-40, M=1) <= 0


def test_polynomials() -> None:
    p = Programs()
    n, m = p.argument("N"), p.argument("M")
    table = finish(p)
    a, b = Polynomial.symbol(n), Polynomial.symbol(m)
    polynomial = a * a * b * 3 - b * 2 + 7
    for values in ((2, 5), (-3, 4), (0, 0)):
        expected = 3 * values[0] ** 2 * values[1] - 2 * values[1] + 7
        assert number(table, table.polynomial(polynomial, OUTSIDE), N=values[0], M=values[1]) == expected
    assert table.polynomial(Polynomial(), OUTSIDE, wide=True) == Number(0, "i64")


def test_addresses_do_not_overflow() -> None:
    p = Programs()
    n = p.argument("N")
    table = finish(p)
    square = Polynomial.symbol(n) * Polynomial.symbol(n)
    assert number(table, table.polynomial(square, OUTSIDE, wide=True), N=1 << 20) == 1 << 40
    assert table.polynomial(square, OUTSIDE, wide=True).element == "i64"
    assert table.polynomial(square, OUTSIDE).element == "i32"
