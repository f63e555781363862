"""Launches that are made up for kernels whose sidecar names no sizes: what is looked up lies within the tensors, and
results follow from the kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.verify.abstract_machine import defined, trials
from twill.exc import UnknownProblem
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

LABEL = """
@triton.jit
def k(x, label, y, V, stride, B: tl.constexpr):
    row = tl.program_id(0)
    t = tl.load(label + row)
    total = tl.zeros([B], tl.float32)
    for i in range(0, V, B):
        total += tl.load(x + row * stride + i + tl.arange(0, B), mask=i + tl.arange(0, B) < V, other=0.0)
    tl.store(y + row, tl.sum(total, 0) - tl.load(x + row * stride + t))
"""
CHAIN = """
@triton.jit
def k(x, label, y, V, stride, B: tl.constexpr):
    row = tl.program_id(0)
    t = tl.load(label + tl.load(label + tl.load(label + row) * V) * V)
    tl.store(y + row * stride + tl.arange(0, B), tl.load(x + t * stride + tl.arange(0, B)))
"""
ROWS = """
@triton.jit
def k(x, label, y, V, stride, B: tl.constexpr):
    i = tl.program_id(0) * 32 + tl.arange(0, 32)
    rows = tl.load(label + i)
    columns = tl.program_id(1) * B + tl.arange(0, B)
    tile = tl.load(x + tl.program_id(1) * V + i[:, None] * V + columns[None, :], mask=i[:, None] < stride, other=0.0)
    tl.store(y + rows[:, None] * V + columns[None, :], tile, mask=i[:, None] < stride)
"""
ONE_PLACE = """
@triton.jit
def k(x, label, y, V, stride, B: tl.constexpr):
    i = tl.arange(0, 8 * B)
    tl.store(y + tl.load(label + (i + 1) // 2), tl.load(x + i))
"""
SIG = ["x=*fp32:16", "label=*i32:16", "y=*fp32:16", "V=i32", "stride=i32:16"]


def emitted(source: str, kernel_file: Callable[..., str]) -> Emission:
    kernel = extract(f"{kernel_file(source)}::k", sig=SIG, const=["B=128"])
    return emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))


@pytest.mark.parametrize("source", [LABEL, CHAIN, ROWS], ids=["a label picks from a row", "a chain", "scattered rows"])
def test_launches_are_within_their_tensors_and_have_one_right_result(
    kernel_file: Callable[..., str], source: str
) -> None:
    emission = emitted(source, kernel_file)
    assert all(defined(emission.program.program, trial.launch) for trial in trials(emission.program))
    assert checked(emission).said() == []


def test_a_kernel_whose_threads_store_to_one_place_has_no_launch_to_be_executed_at(
    kernel_file: Callable[..., str],
) -> None:
    emission = emitted(ONE_PLACE, kernel_file)
    with pytest.raises(UnknownProblem, match=r"stores several numbers to one place"):
        checked(emission)
