"""What follows a loop in parts of columns computes, as CUDA, what the kernel says; texts are in test_texts.py."""

from __future__ import annotations

import pytest

from tests.golden_schedules import examples, kernel, lowered, machine, schedule
from twill.codegen.emit import build_kernel
from twill.codegen.passes.register_parts import run
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import Copy
from twill.kernel.specialization import problem_of
from twill.trial.execute import checked

pytestmark = pytest.mark.usefixtures("at_root")
HALVES = Choices(partial_sums=False, ping_pong=False, dynamic=False, capacity=1 << 20, product_registers=64)


def test_an_epilogue_by_halves_of_columns_is_right_on_the_abstract_machine_and_compiled() -> None:
    example = next(one for one in examples() if one.name == "gemm_bias_gelu_bf16")
    problem = problem_of(kernel(example).specialization)
    program = run(lowered(example), HALVES)
    parts = [{s.columns for s in g.stmts if isinstance(s, Copy)} for g in program.groups if not g.issuer]
    assert parts == [{(0, 64), (64, 128)}] * 2
    assert verify(program, problem) == ()
    built = build_kernel(program, kernel(example).specialization, schedule(example), machine())
    assert checked(built, problem).said() == []
