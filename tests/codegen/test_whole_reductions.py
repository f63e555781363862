"""All elements of a tile are summed without a copy of the tile in shared memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

WHOLE = """
@triton.jit
def k(x, w, y, s, B: tl.constexpr, N: tl.constexpr):
    pid = tl.program_id(0)
    r, c, n = tl.arange(0, B), tl.arange(0, B), tl.arange(0, N)
    a = tl.load(x + pid * B * B + r[:, None] * B + c[None, :])
    t = tl.dot(a, tl.load(w + c[:, None] * N + n[None, :]))
    tl.store(y + (pid * B + r)[:, None] * N + n[None, :], t.to(tl.bfloat16))
    tl.store(s + 2 * pid, tl.sum(t * t))
    tl.store(s + 2 * pid + 1, tl.max(t))
"""
LOADED = """
@triton.jit
def k(x, w, y, s, B: tl.constexpr, N: tl.constexpr):
    r, n = tl.arange(0, B), tl.arange(0, N)
    a = tl.load(x + tl.program_id(0) * B * N + r[:, None] * N + n[None, :])
    tl.store(s + tl.program_id(0), tl.sum(a.to(tl.float32) * tl.load(w + n)[None, :]))
"""


@pytest.mark.parametrize("source", [WHOLE, LOADED], ids=["product", "loaded"])
def test_a_sum_of_all_elements_is_one_of_its_rows_sums(kernel_file: Callable[..., str], source: str) -> None:
    sig = ("x=*bf16:16", "w=*bf16:16", "y=*bf16:16", "s=*fp32:16")
    kernel = extract(f"{kernel_file(source)}::k", sig=sig, const=("B=64", "N=128"))
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    emission = emit_scheduled(kernel, H100, schedule)
    assert all(buffer.bytes < 64 * 128 * 4 for buffer in emission.program.buffers)
    assert not checked(emission).said()
