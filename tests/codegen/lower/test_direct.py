"""Promises of `twill.codegen.lower.direct`: kernels without products whose one warp group loads to its registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.kernels import H100
from tests.lowered import plan_of, scheduled
from tests.tile_programs import Programs, gemm
from twill.codegen.lower.assign import with_budgets
from twill.codegen.lower.candidates import candidates
from twill.codegen.lower.direct import direct_schedule
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Copy, LoadGlobal, Pipeline, Stmt, WarpProgram, walk
from twill.graph.build import wire
from twill.tile.affine import Polynomial
from twill.tile.program import TileProgram

COLUMNS = 1024


def row(p: Programs) -> Polynomial:
    return Polynomial.symbol(p.op("program_id", axis=0))


def one_tile() -> TileProgram:
    """Y = X less the largest number of each row, a row a tile."""
    p = Programs()
    p.argument("X", "ptr:f32")
    p.argument("Y", "ptr:f32")
    at = (row(p), 0)
    x = p.load("X", (1, COLUMNS), "f32", at=at, name="x")
    most = p.op("broadcast", p.op("expand_dims", p.reduce(x, 1, "max"), shape=(1, 1), axis=1), shape=(1, COLUMNS))
    p.store("Y", p.op("sub", x, most, name="y"), at=at)
    return p.done()


def sums(into: str = "Y") -> TileProgram:
    """S = the sum of a row by tiles, each of which is doubled and stored to `into`."""
    p = Programs()
    p.argument("X", "ptr:f32")
    p.argument("Y", "ptr:f32")
    p.argument("S", "ptr:f32")
    trips, first = p.argument("trips"), row(p)
    with p.loop(trips, [p.constant(0.0, (1, COLUMNS), "f32")]) as k:
        at = (first, k.i * COLUMNS)
        x = p.load("X", (1, COLUMNS), "f32", at=at, name="x")
        p.store(into, p.op("add", x, x, name="twice"), at=at)
        k.yields = [p.op("add", k.carried[0], x, name="total")]
    p.store("S", k.results[0], at=(first, 0))
    return p.done()


def direct(program: TileProgram) -> WarpProgram:
    return lower(program, scheduled(program), H100)


def statements(program: WarpProgram) -> Iterator[Stmt]:
    return (stmt for group in program.groups for stmt in walk(group.body))


def test_a_kernel_without_loops_has_one_warp_group_and_shares_its_sm() -> None:
    made = direct(one_tile())
    assert [group.threads for group in made.groups] == [128] and not made.arefs
    assert made.ctas > H100.emitting.ctas.whole  # no ring fills the SM before its registers do
    assert verify(made) == ()


@pytest.mark.parametrize(("tiles", "budget"), [(250, 0), (101, 240), (240, 240)])
def test_a_lone_warp_group_that_wants_more_registers_than_a_budget_may_be_has_none(tiles: int, budget: int) -> None:
    program = one_tile()
    plan = plan_of(wire(program), scheduled(program))
    (group,) = plan.groups
    alone = replace(plan, groups=(replace(group, registers=tiles),), candidate=replace(plan.candidate, ctas=1))
    assert [one.registers for one in with_budgets(alone).groups] == [budget]


def test_tiles_of_a_loop_are_loaded_an_iteration_ahead_into_registers() -> None:
    made = direct(sums())
    assert len(made.groups) == 1 and not made.arefs
    (loop,) = (stmt for stmt in statements(made) if isinstance(stmt, Pipeline))
    assert len(loop.prologue) == 1 and any(isinstance(stmt, LoadGlobal) for stmt in walk(loop.prologue[0]))
    assert verify(made) == ()


def test_a_tile_that_is_overwritten_while_it_is_read_is_found() -> None:
    made = direct(sums())
    (group,) = made.groups

    def without(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            replace(stmt, steady=without(stmt.steady)) if isinstance(stmt, Pipeline) else stmt
            for stmt in stmts
            if not isinstance(stmt, Copy)
        )

    assert verify(replace(made, groups=(replace(group, body=without(group.body)),)))


def test_loads_of_what_the_loop_stores_are_right_too() -> None:
    assert verify(direct(sums(into="X"))) == ()


def test_products_keep_their_warp_groups() -> None:
    program = gemm()
    assert not any(candidate.direct for candidate in candidates(program, scheduled(program), H100))


@pytest.mark.parametrize("program", [one_tile(), sums()])
def test_every_op_of_a_direct_schedule_is_in_its_one_warp_group_and_in_order(program: TileProgram) -> None:
    made = direct_schedule(scheduled(program))
    assert [group.id for group in made.warp_groups] == [0] and {op.warp_group for op in made.ops} == {0}
    for loop in made.loops:
        starts = [op.start for op in made.ops if op.loop == loop.loop and "load" not in op.op]
        assert starts == sorted(starts) and max(starts) < loop.length
