"""Promises of `twill.codegen.lower.cross_tile_reuse`: tiles that neighbours want alike are loaded once where they
fit, no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from tests.kernels import H100
from twill.codegen.lower.cross_tile_reuse import fits
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.verify.abstract.actor import Actor
from twill.codegen.verify.abstract.cross_tile_reuse import ReuseCounter
from twill.codegen.verify.abstract.scalars import EvaluationScope, evaluate, no_element
from twill.codegen.verify.abstract_machine import run, trials, verify
from twill.codegen.warp.expression import Expr, Local, Number, less
from twill.codegen.warp.program import CountReuse, Define, Expect, If, Let, Stmt, TmaLoad, WarpGroup, WarpProgram, walk

GEMM, BANDED = Example("examples/gemm.py", "bf16-192"), Example("examples/gemm_bias_gelu.py", "bf16-192")


@cache
def lowered(example: Example, cluster: int = 1) -> WarpProgram:
    return lower(kernel(example).program, schedule(example), machine(), cluster=cluster)


def loading(program: WarpProgram) -> WarpGroup:
    return next(group for group in program.groups if group.issuer)


def lets(program: WarpProgram) -> list[CountReuse]:
    return [stmt for group in program.groups for stmt in group.body if isinstance(stmt, CountReuse)]


def holds(expr: Expr, **arguments: int) -> bool:
    return bool(evaluate(expr, EvaluationScope(arguments, (1, 1, 1), (0, 0, 0), no_element)))


@pytest.mark.parametrize("example", [GEMM, BANDED])
def test_a_tile_that_neighbours_share_may_stay_and_one_that_moves_with_each_of_them_does_not(example: Example) -> None:
    program = lowered(example)
    (guard,) = [stmt for stmt in walk(loading(program).body) if isinstance(stmt, If)]
    (full,) = guard.body
    assert isinstance(full, Expect) and full.bytes == 0
    moved = {program.maps[s.map].argument for s in walk(guard.otherwise) if isinstance(s, TmaLoad)}
    assert moved == {"b_desc"}
    assert len(lets(program)) == 1


def loads_of_b(program: WarpProgram, rows: int, columns: int, depth: int) -> tuple[int, int]:
    """Boxes of B that are loaded, and that one instance after the other would load, in a launch of the sizes made up
    for the program that has so many instances and iterations."""
    for trial in trials(program):
        sizes = trial.launch.scalars
        grid = (-(-int(sizes["M"]) // 128), -(-int(sizes["N"]) // 192), -(-int(sizes["K"]) // 64))
        if grid == (rows, columns, depth):
            break
    else:
        raise AssertionError(f"no launch of {rows} x {columns} instances with {depth} iterations")
    seen: list[str] = []

    def watch(actor: Actor, stmt: Stmt) -> None:
        if isinstance(stmt, TmaLoad) and program.maps[stmt.map].argument == "b_desc":
            seen.append(actor.role)

    assert run(program, trial.launch, watch=watch).violations == ()
    return len(seen), 3 * rows * columns * depth


def test_a_tile_is_loaded_again_only_where_its_ring_held_something_else() -> None:
    assert loads_of_b(lowered(BANDED), 2, 2, 4) == (3 * 2 * 4, 3 * 2 * 2 * 4)
    # five iterations in four slots: nothing is where it is wanted
    found, every = loads_of_b(lowered(BANDED), 2, 2, 5)
    assert found == every


def test_tiles_fit_where_they_fill_the_ring_once() -> None:
    assert [trip for trip in range(10) if holds(fits(Number(trip), 4))] == [4]


def conditions(program: WarpProgram) -> list[Expr]:
    """Under which CTAs have runs of neighbours."""
    return [stmt.values[0] for stmt in program.setup if isinstance(stmt, Define) and stmt.names == ("runs",)]


def test_cta_s_have_runs_of_neighbours_in_launches_whose_tiles_fit_and_in_no_others() -> None:
    (runs,) = conditions(lowered(GEMM))
    assert [k for k in range(16, 400, 16) if holds(runs, K=k)] == [208, 224, 240, 256]


def test_what_neighbours_have_alike_is_counted_anew_with_each_column() -> None:
    (stayer,) = ReuseCounter.of(lowered(BANDED))
    order = [(row, column, 0) for column in range(2) for row in range(3)]
    scalars = {"M": 384, "N": 384, "K": 256}
    found = [there for _, there in stayer.finds(order, (3, 2, 1), scalars)]
    assert found == [False, True, True, False, True, True]


def changed(program: WarpProgram, change: Callable[[Stmt], Stmt]) -> WarpProgram:
    """The program with every statement of its load group's first level changed."""
    groups = (replace(g, body=tuple(map(change, g.body))) if g.issuer else g for g in program.groups)
    return replace(program, groups=tuple(groups))


def test_a_tile_that_is_taken_for_another_one_is_found() -> None:
    def column_left_out(stmt: Stmt) -> Stmt:
        return replace(stmt, values=stmt.values[1:]) if isinstance(stmt, CountReuse) else stmt

    def too_early(stmt: Stmt) -> Stmt:
        early = isinstance(stmt, Let) and stmt.name == "stays"
        return replace(stmt, value=less(Number(0), Local("alike"))) if early and isinstance(stmt, Let) else stmt

    for change in (column_left_out, too_early):
        assert "values" in {violation.rule for violation in verify(changed(lowered(GEMM), change), enough=1)}


def test_softmax_clusters_and_unequal_instances_keep_their_order() -> None:
    attention = lowered(Example("examples/attention.py", "causal"))
    assert not lets(attention) and not conditions(attention)
    paired = lowered(Example("examples/gemm.py", "bf16"), cluster=2)
    assert not conditions(paired)


def test_the_printed_kernel_walks_in_runs_and_says_that_a_slot_is_full() -> None:
    text = print_cuda(lowered(GEMM), H100).text
    assert "const bool runs = " in text and "instance < run_end; instance += run_step" in text
    assert "mbar_arrive(smem + b_full" in text and "i32 alike = -1;" in text
