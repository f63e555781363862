"""Tiles that two uses want spread differently are converted, and the machine code computes what the program does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

HEAD = """
@triton.jit
def k(x, g, y, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    at = i[:, None] * C + j[None, :]
"""
KERNELS = {
    "a computed matrix beside its transpose": ("""
    v = tl.load(x + at) * 2
    tl.store(y + at, v + tl.trans(v))
""", (32, 32)),
    "a computed vector along rows and columns": ("""
    v = tl.exp(tl.load(g + i))
    tl.store(y + at, v[:, None] - v[None, :])
""", (64, 64)),
    "a reduction of rows used along columns": ("""
    v = tl.load(x + at)
    s = tl.sum(v, 1)
    tl.store(y + at, v * s[None, :] + s[:, None])
""", (32, 32)),
    "a product beside its own transpose": ("""
    acc = tl.zeros([R, C], tl.float32)
    for t in range(n):
        a = tl.load(x + t * R * C + at).to(tl.float16)
        acc = tl.dot(a, a, acc)
    tl.store(y + at, acc + tl.trans(acc))
""", (64, 64)),
    "row sums of a product along its columns": ("""
    acc = tl.zeros([R, C], tl.float32)
    for t in range(n):
        a = tl.load(x + t * R * C + at).to(tl.float16)
        acc = tl.dot(a, a, acc)
    s = tl.sum(acc, 1)
    tl.store(y + at, acc * 0.5 + s[None, :] - s[:, None])
""", (64, 64)),
    "a product of few rows": ("""
    acc = tl.zeros([R, C], tl.float32)
    p = tl.arange(0, 32)
    for t in range(n):
        a = tl.load(x + t * R * 32 + i[:, None] * 32 + p[None, :]).to(tl.float16)
        b = tl.load(x + t * C * 32 + p[:, None] * C + j[None, :]).to(tl.float16)
        acc = tl.dot(a, b, acc)
    tl.store(y + at, acc + tl.load(g + i)[:, None])
""", (16, 64)),
}  # fmt: skip
SIG = ["x=*fp32:16", "g=*fp32:16", "y=*fp32:16", "n=i32"]


@pytest.mark.parametrize("name", KERNELS)
def test_layouts_that_differ_are_converted(kernel_file: Callable[..., str], name: str) -> None:
    body, (rows, columns) = KERNELS[name]
    kernel = extract(f"{kernel_file(HEAD + body)}::k", sig=SIG, const=[f"R={rows}", f"C={columns}"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))
    checked(emit_scheduled(kernel, H100, schedule))
