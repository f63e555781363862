"""Loops whose rings do not fit beside one another take turns in one: same shape, same groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

TWO = """
@triton.jit
def k(a, b, c, d, e, n, m, B: tl.constexpr):
    rows, ks = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for i in range(0, n, B):
        x = tl.load(a + rows[:, None] * n + (i + ks)[None, :])
        acc = tl.dot(x, tl.load(b + (i + ks)[:, None] * B + ks[None, :]), acc)
    acc = acc * 0.5
    for i in range(0, m, B):
        x = tl.load(c + rows[:, None] * m + (i + ks)[None, :])
        acc = tl.dot(x, tl.load(d + (i + ks)[:, None] * B + ks[None, :]), acc)
    tl.store(e + rows[:, None] * B + ks[None, :], acc.to(tl.float16))
"""
SIG = [*(f"{name}=*fp16:16" for name in "abcde"), "n=i32:16", "m=i32:16"]


@pytest.mark.parametrize(("block", "rings"), [(64, 4), (128, 2)])
def test_loops_share_rings_where_memory_is_short_and_only_there(
    kernel_file: Callable[..., str], block: int, rings: int
) -> None:
    """What is emitted has the abstract machine's consent."""
    kernel = extract(f"{kernel_file(TWO)}::k", sig=SIG, const=[f"B={block}"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    program = emit_scheduled(kernel, H100, schedule).program
    made = [aref for aref in program.arefs if aref.transport == "tma"]
    assert len(made) == rings
    assert all(aref.depth >= 2 for aref in made)
