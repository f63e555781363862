"""Promises of `twill.codegen.lower.load_order`: a loop loads what is in memory before it stores there, in whichever
warp group, iteration and row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill import exc
from twill.codegen.emission import Extracted, emit_scheduled, emit_solved, extract
from twill.codegen.lower import place
from twill.schedule.document import Strategy
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

PREFIX = """
@triton.jit
def k(w, x, n, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B
    b = tl.load(w + r[:, None] * B + c[None, :])
    t = tl.zeros([B, B], tl.float32)
    for i in range(n):
        a = tl.load(x + (i * B + r)[:, None] * B + c[None, :])
        tl.store(x + (i * B + r)[:, None] * B + c[None, :], t.to(tl.bfloat16))
        t += tl.dot(a, b)
    tl.store(x + (n * B + r)[:, None] * B + c[None, :], t.to(tl.bfloat16))
"""
SUMS = """
@triton.jit
def k(w, x, n, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B
    t = tl.load(w + r[:, None] * B + c[None, :]).to(tl.float32)
    for i in range(n):
        a = tl.load(x + (i * B + r)[:, None] * B + c[None, :])
        tl.store(x + (i * B + r)[:, None] * B + c[None, :], t.to(tl.bfloat16))
        t = t * 0.5 + a
    tl.store(x + (n * B + r)[:, None] * B + c[None, :], t.to(tl.bfloat16))
"""
LATER = """
@triton.jit
def k(w, x, n, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B
    t = tl.load(w + r[:, None] * B + c[None, :]).to(tl.float32)
    last = t
    for i in range(n):
        a = tl.load(x + ((i + 1) * B + r)[:, None] * B + c[None, :])
        tl.store(x + (i * B + r)[:, None] * B + c[None, :], last.to(tl.bfloat16))
        last = t
        t = t * 0.5 + a
    tl.store(x + (n * B + r)[:, None] * B + c[None, :], t.to(tl.bfloat16))
"""
SIG = ("w=*bf16:16", "x=*bf16:16", "n=i32")
KERNELS = {"in front of a product": PREFIX, "in front of a sum": SUMS, "an iteration later": LATER}


def extracted(kernel_file: Callable[..., str], name: str) -> Extracted:
    return extract(f"{kernel_file(KERNELS[name])}::k", sig=SIG, const=("B=64",))


@pytest.mark.parametrize("strategy", ["heuristic", "none"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_loop_stores_behind_what_another_group_loads_from_there(
    name: str, strategy: Strategy, kernel_file: Callable[..., str]
) -> None:
    options = SolveOptions(strategy=strategy, fuse=False)
    emission = emit_solved(extracted(kernel_file, name), H100, lambda graph, on: solve(graph, on, options))
    assert not checked(emission).said()


def test_fail_a_loop_that_stores_without_waiting_for_the_load(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "load_orders", lambda plan: {})
    kernel = extracted(kernel_file, "in front of a sum")
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="none", fuse=False))
    with pytest.raises(exc.WarpProgramBroken, match=r"\[(order|values)\]"):
        emit_scheduled(kernel, H100, schedule)
