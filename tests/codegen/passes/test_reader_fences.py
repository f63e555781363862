"""Promises of `twill.codegen.passes.reader_fences`: what threads read is fenced before the TMA may overwrite it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.golden_schedules import compiled, examples, kernel, lowered, machine, schedule
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.lowering import lower
from twill.codegen.passes import reader_fences
from twill.codegen.verify.abstract.inputs import launches, most_iterations
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import Consumed, If, Pipeline, ProxyFence, Stmt, WarpProgram, with_blocks
from twill.kernel.specialization import problem_of
from twill.trial.execute import verified

pytestmark = pytest.mark.usefixtures("at_root")

(EXAMPLE,) = (example for example in examples() if example.name == "layer_norm_bf16")
ANYTHING = Choices(partial_sums=True, ping_pong=False, dynamic=False, capacity=1 << 30)


def bare(program: WarpProgram) -> WarpProgram:
    """The program without a fence in front of any release."""

    def without(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        retained = [
            stmt
            for stmt, after in zip(block, (*block[1:], None), strict=False)
            if not (isinstance(stmt, ProxyFence) and isinstance(after, Consumed))
        ]
        return tuple(with_blocks(stmt, lambda inner: without(tuple(inner))) for stmt in retained)

    return replace(program, groups=tuple(replace(group, body=without(group.body)) for group in program.groups))


def program() -> WarpProgram:
    return lowered(EXAMPLE)


def test_the_abstract_machine_finds_a_slot_that_goes_back_without_a_fence() -> None:
    problem = problem_of(kernel(EXAMPLE).specialization)
    assert verify(program(), problem) == ()
    assert "proxy-fence" in {violation.rule for violation in verify(bare(program()), problem)}


def test_the_pass_puts_every_fence_back_and_finds_nothing_left_to_do() -> None:
    assert bare(program()) != program()
    assert reader_fences.run(bare(program()), ANYTHING) == program()
    assert reader_fences.run(program(), ANYTHING) == program()


def test_the_executor_of_ptx_finds_it_in_the_machine_code() -> None:
    emission = compiled(EXAMPLE)
    source, lines = emission.build.source, emission.printed.lines
    made = launches(emission.program, problem_of(kernel(EXAMPLE).specialization))
    launch = max(made, key=lambda one: most_iterations(emission.program.program, one))  # more than a ring has slots
    assert verified(emission.build.ptx, emission.manifest, emission.program, launch).said() == []
    fence = "fence_proxy_async();\n"
    body = emission.printed.text
    assert fence in body and body in source
    spoiled = compile_cubin(body.replace(fence, "\n"), "sm_90a", shapes=emission.printed.shapes, lines=lines)
    said = verified(spoiled.ptx, emission.manifest, emission.program, launch).said()
    assert any("fence.proxy.async" in one for one in said)


FULL, CAUSAL = (
    next(one for one in examples() if one.name == f"attention_backward_{how}") for how in ("full", "causal")
)


def fences_of_an_iteration(made: WarpProgram) -> list[int]:
    """In each computing warp group."""
    loops = [next(stmt for stmt in group.stmts if isinstance(stmt, Pipeline)) for group in made.groups[:2]]
    return [sum(isinstance(stmt, ProxyFence) for stmt in loop.steady) for loop in loops]


def fences_of_each_branch(made: WarpProgram) -> list[int]:
    """The same of each branch of an iteration that has two, one with a mask."""
    loops = [next(stmt for stmt in group.stmts if isinstance(stmt, Pipeline)) for group in made.groups[:2]]
    guards = [stmt for loop in loops for stmt in loop.steady if isinstance(stmt, If)]
    branches = [branch for guard in guards for branch in (guard.body, guard.otherwise)]
    return [sum(isinstance(stmt, ProxyFence) for stmt in branch) for branch in branches]


def test_slots_go_back_behind_a_fence_that_an_iteration_has_anyway() -> None:
    """Vectors of LSE and delta, behind the fence of dS; the other one is of dQ's way out."""
    assert fences_of_an_iteration(lowered(FULL)) == [2, 2]
    assert verify(lowered(FULL), problem_of(kernel(FULL).specialization)) == ()


def test_so_they_do_in_both_branches_of_an_iteration_whose_mask_is_under_a_guard() -> None:
    assert fences_of_each_branch(lowered(CAUSAL)) == [2, 2, 2, 2]
    assert verify(lowered(CAUSAL), problem_of(kernel(CAUSAL).specialization)) == ()


def before_the_pass() -> WarpProgram:
    """The program with those slots released where threads have read them."""
    found: dict[str, WarpProgram] = {}
    lower(kernel(FULL).program, schedule(FULL), machine(), watch=found.__setitem__)
    return found["exchanges"]


@pytest.mark.parametrize("deep", [True, False])
def test_where_there_is_no_slot_for_the_next_iteration_they_have_fences_of_their_own(deep: bool) -> None:
    made = before_the_pass()
    if not deep:
        made = replace(made, arefs=tuple(replace(aref, depth=1) for aref in made.arefs))
    assert fences_of_an_iteration(reader_fences.run(made, ANYTHING)) == ([2, 2] if deep else [4, 4])
