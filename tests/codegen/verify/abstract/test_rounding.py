"""Promises of `twill.codegen.verify.abstract.rounding`: a right program is within what its roundings move."""

from __future__ import annotations

from tests.golden_schedules import machine
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve


def test_sums_that_are_rounded_to_f16_in_every_iteration_may_end_on_either_side() -> None:
    kernel = extract("tests/part_kernels.py", "f16")
    schedule = solve(kernel.graph, machine(), SolveOptions(strategy="heuristic"))
    program = lower(kernel.program, schedule, machine())
    assert verify(program, problem_of(kernel.specialization)) == ()
