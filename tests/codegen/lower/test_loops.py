"""Promises of `twill.codegen.lower.loops`: values that warp groups hand to one another, whichever iteration they are
of.

tests/golden/spread has schedules that spread one row block over several computing warp groups.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.conftest import GOLDEN
from tests.fused_programs import kernel
from tests.golden_schedules import Example, machine, schedule
from tests.golden_schedules import kernel as example_kernel
from twill.codegen.emission import extract, refuse_foreign
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import (
    Copy,
    LoadShared,
    Multiply,
    Pipeline,
    StoreShared,
    WaitGroups,
    WarpGroup,
    WarpProgram,
    walk,
)
from twill.kernel.specialization import problem_of
from twill.schedule.file import load_schedule


@cache
def spread(name: str) -> WarpProgram:
    schedule = load_schedule(GOLDEN / "spread" / f"{name}.json")
    refuse_foreign(schedule, kernel(name).graph, machine())
    return lower(kernel(name).program, schedule, machine())


def loop(group: WarpGroup) -> Pipeline:
    (found,) = (stmt for stmt in group.body if isinstance(stmt, Pipeline))
    return found


def received(program: WarpProgram, group: WarpGroup) -> set[str]:
    """Rings that a group brings into registers in its loop."""
    loads = [stmt for stmt in walk(loop(group).steady) if isinstance(stmt, LoadShared)]
    return {program.buffers[load.source.buffer].name for load in loads}


@pytest.mark.parametrize("name", ["attention", "linear_attention"])
def test_one_row_block_in_several_groups_is_right(name: str) -> None:
    assert verify(spread(name), problem_of(kernel(name).specialization)) == ()


def test_a_value_of_the_iteration_before_comes_from_the_group_that_makes_it() -> None:
    """The maxima of one group go to others, which compare them with those of the iteration before."""
    program = spread("attention")
    assert any("m_ij" in received(program, group) for group in program.groups if not group.issuer)


def test_what_a_loop_leaves_in_one_group_is_read_by_another() -> None:
    """The sums of rows are made in one group, and divided by in the one that has the accumulator."""
    program = spread("attention")
    assert any("l_i" in received(program, group) for group in program.groups if not group.issuer)


def test_an_addend_that_is_made_anew_while_the_sum_is_read_has_registers_of_its_own() -> None:
    group = max(spread("linear_attention").groups, key=lambda g: sum(isinstance(s, Multiply) for s in g.stmts))
    steady = loop(group).steady
    assert [stmt for stmt in walk(steady) if isinstance(stmt, Copy)]


@cache
def backward() -> WarpProgram:
    """Attention backward, whose row blocks have shares of dQ (`twill.graph.by_columns`)."""
    example = Example("examples/attention_backward.py", "full")
    return lower(example_kernel(example).program, schedule(example), machine())


def named(group: WarpGroup, number: int) -> str:
    """A fragment's name without its row block."""
    return next(fragment.name for fragment in group.fragments if fragment.id == number).split("_")[0]


def test_each_row_block_multiplies_its_columns_of_what_joins_them_and_stores_those() -> None:
    columns = []
    for group in backward().groups[:2]:
        mmas = [s for s in walk(loop(group).steady) if isinstance(s, Multiply) and named(group, s.accumulator) == "dq"]
        assert [backward().buffers[s.b.buffer].name for s in mmas] == ["k.0", "k.1"]
        columns += [s.b.columns for s in mmas]
    assert columns == [(0, 64), (0, 64), (64, 128), (64, 128)]


def test_a_product_that_nothing_reads_is_waited_for_behind_the_products_that_follow_it() -> None:
    """dV, dQ and dK are one run: none is waited for in front of dK, and only dQ, or what was issued before it, in front
    of the store of dQ."""
    runs = []
    for group in backward().groups[:2]:
        steps: list[str] = []
        for stmt in loop(group).steady:
            if isinstance(stmt, Multiply):
                steps.append(named(group, stmt.accumulator))
            if isinstance(stmt, WaitGroups):
                steps += [f"wait {named(group, number)}" for number in stmt.ready[:1]]
            if isinstance(stmt, StoreShared):
                steps.append(f"store {named(group, stmt.operand)}")
        runs.append([step for step in steps if step.split()[-1] in ("dv", "dq", "dk")])
    assert runs == [
        ["dq", "dq", "dv", "dk", "wait dq", "store dq", "wait dv", "wait dk"],
        ["dv", "dq", "dq", "dk", "wait dv", "wait dq", "store dq", "wait dk"],
    ]


PARTS = "tests/part_kernels.py"


def test_a_group_gives_back_the_tiles_that_it_makes_itself_before_it_makes_them_anew() -> None:
    """A product in parts. In this schedule, which an earlier model of costs led to, a warp group makes a part of B
    again right behind the product that reads the last one."""
    read = extract(PARTS, "a")
    program = lower(read.program, load_schedule(GOLDEN / "spread" / "parts.json"), machine())
    assert verify(program, problem_of(read.specialization)) == ()
