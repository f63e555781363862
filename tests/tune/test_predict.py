"""Promises of predictions: cycles follow the schedule's own figures, the busiest SM, and every loop's iterations."""

from __future__ import annotations

import pytest

from tests import fused_programs
from tests.golden_schedules import Example, kernel, machine, schedule
from twill.kernel.problem import Case
from twill.kernel.specialization import problem_of
from twill.tune.predict import SAMPLES, predicted_cycles, sample, straight_cycles

pytestmark = pytest.mark.usefixtures("at_root")

GEMM = Example("examples/gemm.py", "bf16")
CAUSAL = Example("examples/attention.py", "causal")


def case(example: Example, **sizes: int) -> Case:
    problem = problem_of(kernel(example).specialization)
    assert problem is not None
    return problem.case(sizes)


def predicted(example: Example, **sizes: int) -> float:
    return predicted_cycles(kernel(example), schedule(example), machine(), case(example, **sizes))


def test_an_instance_takes_its_iterations_and_the_length_once() -> None:
    one, loop = schedule(GEMM), schedule(GEMM).loops[0]
    straight = straight_cycles(kernel(GEMM), one, machine())
    assert straight > 0
    assert predicted(GEMM, M=128, N=128, K=64 * 9) == straight + 8 * loop.ii + loop.length
    assert predicted(GEMM, M=128, N=128, K=0) == straight


def test_a_launch_takes_as_long_as_the_busiest_sm() -> None:
    sms = int(machine().sms.value)
    once = predicted(GEMM, M=128, N=128, K=1024)
    assert predicted(GEMM, M=128 * sms, N=128, K=1024) == once
    assert predicted(GEMM, M=128 * (sms + 1), N=128, K=1024) == 2 * once


def test_fused_instances_take_one_sm_together() -> None:
    kernel_, schedule_ = fused_programs.kernel("dual_gemm"), fused_programs.schedule("dual_gemm")
    problem = problem_of(kernel_.specialization)
    assert problem is not None
    sms = int(machine().sms.value)
    rows = (1, 2, 2 * sms, 2 * sms + 1)  # of tiles
    sizes = [problem.case({"M": 64 * number, "N": 128, "K": 1024}) for number in rows]
    one, pair, all_sms, more = (predicted_cycles(kernel_, schedule_, machine(), size) for size in sizes)
    assert one == pair == all_sms == more / 2


def test_a_causal_launch_takes_about_half_of_a_full_one_in_the_steady_state() -> None:
    full = Example("examples/attention.py", "full")
    sizes = {"Z": 4, "H": 16, "N_CTX": 16384}
    ratio = predicted(CAUSAL, **sizes) / predicted(full, **sizes)
    assert 0.4 < ratio < 0.8


def test_samples_are_indices_of_the_grid_spread_over_all_of_it() -> None:
    assert sample((2, 3)) == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 2, 0), (1, 2, 0)]
    many = sample((100, 10, 5))
    assert len(set(many)) == SAMPLES
    assert {z for _, _, z in many} == set(range(5)) and max(x for x, _, _ in many) > 90
