"""Promises of the launches that are made up: floats small and large where a maximum is taken."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from tests.warp_programs import gemm
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import has_maximum, launches, most_iterations

pytestmark = pytest.mark.usefixtures("at_root")

FULL = Example("examples/attention.py", "full")


def test_the_longest_launch_of_a_softmax_has_small_floats_and_large_ones() -> None:
    program = lower(kernel(FULL).program, schedule(FULL), machine())
    made = [*launches(program)]
    lengths = [most_iterations(program.program, one, None) for one in made]
    longest = {one.scale for one, length in zip(made, lengths, strict=True) if length == max(lengths)}
    assert has_maximum(program.program) and len(longest) == 2


def test_without_a_maximum_it_is_made_once() -> None:
    made = [*launches(gemm(2, 1))]
    assert not has_maximum(gemm(2, 1).program)
    assert len({one.text for one in made if one.ctas == 1}) == len([one for one in made if one.ctas == 1])
