"""Promises of the launches that are made up: floats small and large where a maximum is taken."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from tests.warp_programs import gemm
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.coverage import choose
from twill.codegen.verify.abstract.guards import said
from twill.codegen.verify.abstract.inputs import has_maximum, launches, most_iterations, sidecar_problem
from twill.codegen.verify.abstract.wanted import wanted

pytestmark = pytest.mark.usefixtures("at_root")

FULL = Example("examples/attention.py", "full")


def test_the_longest_launch_of_a_softmax_has_small_floats_and_large_ones() -> None:
    program = lower(kernel(FULL).program, schedule(FULL), machine())
    made = [*launches(program)]
    lengths = [most_iterations(program.program, one, None) for one in made]
    longest = {one.scale for one, length in zip(made, lengths, strict=True) if length == max(lengths)}
    assert has_maximum(program.program) and len(longest) == 2


def test_a_window_longer_than_any_ring_ends_within_a_launch() -> None:
    """Conditions that say the same at all small sizes are asked at larger ones."""
    example = Example("examples/sliding_window_attention.py", "bf16")
    program = lower(kernel(example).program, schedule(example), machine())
    problem = sidecar_problem(program.program)
    assert problem is not None
    chosen = choose(program.program, problem, wanted(program))
    ends = {(str(one), says) for one, says in said(goal for each in chosen for goal in each.reaches)}
    assert {says for one, says in ends if "1024" in one} == {True, False}
    assert max(each.sizes["N_CTX"] for each in chosen) > 1024


def test_without_a_maximum_it_is_made_once() -> None:
    made = [*launches(gemm(2, 1))]
    assert not has_maximum(gemm(2, 1).program)
    assert len({one.text for one in made if one.ctas == 1}) == len([one for one in made if one.ctas == 1])
