"""Loops whose rings do not fit beside one another take turns in one: same shape, same groups."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

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


MOVED = """
@triton.jit
def k(a, b, e, n, B: tl.constexpr):
    rows, ks = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for i in range(0, n, B):
        x = tl.load(a + rows[:, None] * 8192 + (i + ks)[None, :])
        acc = tl.dot(x, tl.load(b + (i + ks)[:, None] * B + ks[None, :]), acc)
    acc = acc * 0.5
    for i in range(0, n, B):
        x = tl.load(a + rows[:, None] * 8192 + (i + 4 + ks)[None, :])
        acc = tl.dot(x, tl.load(b + (i + ks)[:, None] * B + ks[None, :]), acc)
    tl.store(e + rows[:, None] * B + ks[None, :], acc.to(tl.float16))
"""


def test_a_ring_that_the_tma_fills_in_one_loop_is_not_filled_by_threads_in_another(
    kernel_file: Callable[..., str],
) -> None:
    """Both read `a`, but the second one from an index that is no multiple of 16 bytes, where no tensor map begins."""
    sig = [*(f"{name}=*fp16:16" for name in "abe"), "n=i32:16"]
    kernel = extract(f"{kernel_file(MOVED)}::k", sig=sig, const=["B=64"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    emission = emit_scheduled(kernel, H100, schedule)
    assert [aref.transport for aref in emission.program.arefs if aref.name == "x"] == ["tma", "registers"]
    assert not checked(emission, problem_of(kernel.specialization)).said()
