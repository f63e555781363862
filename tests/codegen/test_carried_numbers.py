"""Numbers that a loop carries and changes by more than a fixed amount are computed as tiles are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import H100
from twill import exc
from twill.codegen.emission import emit_scheduled, extract
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

SIG = ["x=*fp32:16", "y=*fp32:16", "z=*fp32:16", "n=i32", "decay=fp32"]
MOMENTS = """
@triton.jit
def k(x, y, z, n, decay, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    mean = tl.zeros((B,), tl.float32)
    count, weight, turn = 0.0, 1.0, 1
    for i in range(0, n, 4):
        rows = i + tl.arange(0, 4)
        ok = rows[:, None] < n
        v = tl.load(x + rows[:, None] * B + c[None, :], mask=ok, other=0.0)
        part = tl.minimum(n - i, 4).to(tl.float32)
        total = count + part
        mean += (tl.sum(v, 0) / part - mean) * (part / total) * weight
        count = total
        weight = weight * decay
        turn = (turn * 3 + 1) % 1024
    tl.store(y + c, mean + turn)
    tl.store(z + tl.program_id(0), count / weight)
"""
MOVING = """
@triton.jit
def k(x, y, z, n, decay, B: tl.constexpr):
    c = tl.arange(0, B)
    s = tl.zeros((B,), tl.float32)
    at = 1
    for i in range(n):
        s += tl.load(x + at * B + c)
        at = at * 3 % 64
    tl.store(y + c, s)
"""


def test_numbers_that_count_decay_and_turn_are_right(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(MOMENTS)}::k", sig=SIG, const=["B=128"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    checked(emit_scheduled(kernel, H100, schedule))


def test_an_address_that_is_made_of_one_is_refused_at_its_line(kernel_file: Callable[..., str]) -> None:
    what = "`at` changes from iteration to iteration by more than a fixed amount"
    file = kernel_file(MOVING)
    with pytest.raises(exc.UnsupportedInKernel, match=what) as caught:
        extract(f"{file}::k", sig=SIG, const=["B=128"])
    assert "at * 3" in Path(file).read_text(encoding="utf-8").splitlines()[(caught.value.line or 0) - 1]
