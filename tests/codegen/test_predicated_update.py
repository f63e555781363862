"""Promises about values that are amended under a guard: emitted code does what the kernel's own loops do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile.rewrite.test_loop_fusion import made
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Number
from twill.codegen.warp.program import Compute, If, Pipeline, Stmt, WarpProgram, walk

KERNELS = ("masked_last", "masked_first", "three", "ragged", "masked_out")


def lowered(kernel: str, split_index_sets: bool = False) -> WarpProgram:
    program = made(kernel)
    return lower(program, scheduled(program), H100, split_index_sets=split_index_sets)


def guarded(stmts: tuple[Stmt, ...]) -> list[If]:
    """Statements that amend: elementwise work under a guard that is no iteration's end."""
    return [stmt for stmt in walk(stmts) if isinstance(stmt, If) and any(isinstance(s, Compute) for s in stmt.body)]


def never(stmt: Any) -> Any:
    """The same with nothing amended."""
    if isinstance(stmt, Pipeline):
        return replace(
            stmt,
            prologue=tuple(tuple(map(never, block)) for block in stmt.prologue),
            steady=tuple(map(never, stmt.steady)),
            epilogue=tuple(tuple(map(never, block)) for block in stmt.epilogue),
        )
    return replace(stmt, condition=Number(0, "i1")) if stmt in guarded((stmt,)) else stmt


@pytest.mark.parametrize("split_index_sets", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_does_what_the_kernel_as_written_does(kernel: str, split_index_sets: bool) -> None:
    """At trip counts around 0, 1 and the number of stages, of a program with one loop and one without a mask."""
    assert verify(lowered(kernel, split_index_sets)) == ()


def test_the_abstract_machine_sees_a_steady_state_that_never_changes() -> None:
    def unchanged(stmt: Stmt) -> Stmt:
        return replace(stmt, until=Number(0, "i1")) if isinstance(stmt, Pipeline) and stmt.later else stmt

    program = lowered("masked_first", split_index_sets=True)
    groups = tuple(replace(group, body=tuple(map(unchanged, group.body))) for group in program.groups)
    assert groups != program.groups
    assert "values" in {violation.rule for violation in verify(replace(program, groups=groups))}


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_abstract_machine_sees_a_guard_that_never_holds(kernel: str) -> None:
    program = lowered(kernel)
    groups = tuple(replace(group, body=tuple(map(never, group.body))) for group in program.groups)
    found = verify(replace(program, groups=groups))
    assert "values" in {violation.rule for violation in found}


def test_masks_alone_leave_one_steady_state() -> None:
    """A ragged end may never be met: code for it is not worth what a branch costs."""
    pipelines = [stmt for group in lowered("masked_out", split_index_sets=True).groups for stmt in walk(group.body)]
    assert all(stmt.until is None for stmt in pipelines if isinstance(stmt, Pipeline))


def test_the_value_is_changed_where_it_is() -> None:
    """Its readers read the variable that the first loop's iterations leave alone."""
    (group, *_) = lowered("masked_last").groups
    steady = tuple(s for p in group.body if isinstance(p, Pipeline) for s in p.steady)
    (guard,) = guarded(steady)
    last = guard.body[-1]
    assert isinstance(last, Compute)
    assert last.kind == "select"
    assert last.result in {stmt.result for stmt in steady if isinstance(stmt, Compute)}
