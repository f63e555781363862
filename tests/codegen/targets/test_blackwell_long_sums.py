"""Promises of sums that go on from loop to loop: one slot of tensor memory, to which the MMAs of all loops add."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.places import edit, instead, places
from twill.codegen.emission import Extracted, emit_scheduled, extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Apply
from twill.codegen.warp.program import If, Publish, TensorMultiply, WarpProgram
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.links import carried_links
from twill.machine.file import load_machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

TWO_LOOPS = """
@triton.jit
def k(a, b, c, d, y, K, N, M: tl.constexpr, W: tl.constexpr, S: tl.constexpr, T: tl.constexpr):
    r, w, s, t = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, W), tl.arange(0, S), tl.arange(0, T)
    acc = tl.zeros((M, W), tl.float32)
    for i in range(0, K, S):
        left = tl.load(a + r[:, None] * K + (i + s)[None, :])
        acc += tl.dot(left, tl.load(b + (i + s)[:, None] * W + w[None, :]))
    for i in range(0, N, T):
        left = tl.load(c + r[:, None] * N + (i + t)[None, :])
        acc += tl.dot(left, tl.load(d + (i + t)[:, None] * W + w[None, :]))
    tl.store(y + r[:, None] * W + w[None, :], acc.to(tl.bfloat16))
"""
SIG = (*(f"{name}=*bf16:16" for name in "abcdy"), "K=i32:16", "N=i32:16")
B200 = load_machine("b200")


@pytest.fixture
def two_loops(kernel_file: Callable[..., str]) -> tuple[Extracted, Schedule]:
    kernel = extract(f"{kernel_file(TWO_LOOPS)}::k", sig=SIG, const=("M=128", "W=64", "S=64", "T=32"))
    return kernel, solve(kernel.on(B200).graph, B200, SolveOptions(strategy="heuristic", fuse=False))


def test_loops_that_go_on_with_a_sum_add_to_one_slot(two_loops: tuple[Extracted, Schedule]) -> None:
    """Also where one of the loops, or both, have no iterations; the PTX computes what the tile program does."""
    made = emit_scheduled(two_loops[0], B200, two_loops[1])
    assert [(b.name, b.shape) for b in made.program.buffers if b.tensor] == [("acc", (128, 64))]
    assert [stmt for group in made.program.groups for stmt in group.stmts if isinstance(stmt, Publish)] != []
    checked(made)


def first_of(expr: Any) -> Any:
    """The first of two conditions of which one suffices."""
    assert isinstance(expr, Apply)
    assert expr.kind == "or"
    return expr.operands[0]


def test_fail_a_sum_that_begins_again_or_is_handed_on_by_one_loop_alone(two_loops: tuple[Extracted, Schedule]) -> None:
    """The second loop overwrites what the first one added up; or nobody learns of the sum where the first loop did
    nothing, or the second."""
    program = lower(two_loops[0].on(B200).wired, two_loops[1], B200)
    assert not verify(program)
    (again,) = (
        place for place in places(program) if isinstance(place.stmt, TensorMultiply)
        if isinstance(place.stmt.accumulate, Apply) and place.stmt.accumulate.kind == "or"
    )  # fmt: skip
    assert isinstance(again.stmt, TensorMultiply)
    overwrites = replace(again.stmt, accumulate=first_of(again.stmt.accumulate))
    assert {wrong.rule for wrong in verify(edit(program, again, instead(overwrites)))} == {"values"}
    handed = [place for place in places(program) if isinstance(place.stmt, If) and publishes(place.stmt)]
    assert len(handed) == 1
    for number in range(2):
        assert isinstance(handed[0].stmt, If)
        assert isinstance(handed[0].stmt.condition, Apply)
        alone = replace(handed[0].stmt, condition=handed[0].stmt.condition.operands[number])
        assert "deadlock" in {wrong.rule for wrong in verify(edit(program, handed[0], instead(alone)))}


def publishes(stmt: If) -> bool:
    return any(isinstance(inner, Publish) for inner in stmt.body)


def test_a_sum_in_tensor_memory_is_one_threads_in_all_its_loops(two_loops: tuple[Extracted, Schedule]) -> None:
    """Two threads would each have to wait for the other one's MMAs."""
    graph = two_loops[0].on(B200).graph
    loops = [region for region in graph.regions if region.kind == "loop"]
    first, last = (cost(graph, region, B200, next(iter(cooperations(graph, region, B200)))) for region in loops)
    tied = carried_links(graph, first, last, [100 + i.id for i in first.instructions])
    (mma,), (main,) = ([i.id for i in one.instructions if i.op == "dot"] for one in (last, first))
    assert tied[mma] == 100 + main


def issuers(program: WarpProgram) -> set[str]:
    return {g.role for g in program.groups for stmt in g.stmts if isinstance(stmt, TensorMultiply)}


def test_who_multiplies_does_so_in_both_loops(two_loops: tuple[Extracted, Schedule]) -> None:
    assert issuers(lower(two_loops[0].on(B200).wired, two_loops[1], B200)) == {"mma"}
