"""Promises of `twill.codegen.passes.pipeline`: one order of passes, each of which leaves a program in good form."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.golden_schedules import Example, examples, kernel, machine, schedule
from twill import exc
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lowering import lower
from twill.codegen.passes.pipeline import LOWERING, PIPELINE, run_passes
from twill.codegen.verify.abstract.operands import operand_violations
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import WarpProgram

pytestmark = pytest.mark.usefixtures("at_root")

# Which passes change these examples; placement changes all.
CHANGED = {
    "attention_full": {"hoist-vectors", "partial-reductions", "reader-fences", "warp-votes"},
    "gemm_bias_gelu_bf16": {"erf-tails", "ping-pong"},
    "layer_norm_bf16": {"dynamic-scheduler", "reader-fences"},
    "linear_attention_bf16": {"fences"},
}
EXAMPLES = {example.name: example for example in examples() if example.name in CHANGED}
ANYTHING = Choices(partial_sums=True, ping_pong=False, dynamic=False, capacity=1 << 30)


@cache
def stages(name: str) -> dict[str, WarpProgram]:
    """The program behind lowering and behind every pass."""
    example: Example = EXAMPLES[name]
    seen: dict[str, WarpProgram] = {}
    lower(kernel(example).program, schedule(example), machine(), watch=seen.__setitem__)
    return seen


@pytest.mark.parametrize("name", CHANGED)
def test_behind_every_pass_statements_have_the_operands_that_they_need(name: str) -> None:
    assert tuple(stages(name)) == (LOWERING, *(step.name for step in PIPELINE))
    for behind, program in stages(name).items():
        assert [v for group in program.groups for v in operand_violations(program, group)] == [], behind


@pytest.mark.parametrize("name", CHANGED)
def test_a_pass_changes_what_it_is_for_and_nothing_else(name: str) -> None:
    programs = list(stages(name).items())
    changing = {now for (_, old), (now, new) in zip(programs, programs[1:], strict=False) if old != new}
    assert changing == {*CHANGED[name], "unused-indices", "read-once", "early-launch", "placement"}


@pytest.mark.parametrize("name", CHANGED)
def test_what_only_improves_finds_nothing_left_in_its_own_result(name: str) -> None:
    for step in PIPELINE:
        if step.name in ("erf-tails", "hoist-vectors", "fences", "partial-reductions"):
            assert step.run(stages(name)[step.name], ANYTHING) == stages(name)[step.name], step.name


def test_what_does_not_fit_is_refused_by_placement() -> None:
    with pytest.raises(exc.SharedMemoryFull, match="of 1000"):
        run_passes(stages("layer_norm_bf16")[LOWERING], replace(ANYTHING, capacity=1000))


def test_memory_of_a_program_is_what_it_was_made_with_and_can_be_added_to() -> None:
    program = stages("layer_norm_bf16")[LOWERING]
    memory = SharedMemoryPlan.of(program)
    assert (tuple(memory.buffers), tuple(memory.arefs), tuple(memory.maps)) == (
        program.buffers, program.arefs, program.maps,
    )  # fmt: skip
    memory.barrier("another", (0, 1))
    assert len(memory.barriers) == len(program.barriers) + 1
