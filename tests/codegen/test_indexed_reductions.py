"""Reductions of several tiles, and the largest or least element with its index, are emitted for every layout, and the
machine code computes what the tile program does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generated.kernels import held
from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

KERNELS = """
@triton.jit
def both(a, b, c, d):
    return a + c, tl.maximum(b, d)


@triton.jit
def vectors(x, y, z, n):
    row = tl.program_id(0)
    v = tl.load(x + row * 256 + tl.arange(0, 256))
    w = tl.load(z + row * 256 + tl.arange(0, 256))
    most, where = tl.max(v, 0, return_indices=True)
    total, top = tl.reduce((v.to(tl.float32), w), 0, both)
    tl.store(y + row * 4, most.to(tl.float32) + total)
    tl.store(z + row * 256 + tl.arange(0, 256), w + where * n + tl.argmin(w & 3, 0) + top)


@triton.jit
def matrices(x, y, z, n):
    rows, columns = tl.arange(0, 16), tl.arange(0, 32)
    at = tl.program_id(0) * 512 + rows[:, None] * 32 + columns[None, :]
    v, w = tl.load(x + at), tl.load(z + at)
    least, where = tl.min(v, 1, return_indices=True)
    tl.store(y + at, w.to(tl.float32) + least[:, None])
    tl.store(z + at, tl.argmax(w & 3, 0)[None, :] + where[:, None])


@triton.jit
def accumulators(x, y, z, n):
    rows, columns = tl.arange(0, 64), tl.arange(0, 64)
    at = rows[:, None] * 64 + columns[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(n):
        t = tl.load(x + i * 4096 + at)
        acc = tl.dot(t, t, acc)
    tl.store(y + rows, tl.max(acc, 1))
    tl.store(z + rows, tl.argmax(acc, 1, tie_break_left=False))
    tl.store(z + 64 + columns, tl.argmin(acc, 0))
"""
SIGNATURE = ["x=*fp16:16", "y=*fp32:16", "z=*i32:16", "n=i32"]


@pytest.mark.parametrize("name", ["vectors", "matrices", "accumulators"])
def test_indexed_reductions_of_any_layout_are_emitted(kernel_file: Callable[..., str], name: str) -> None:
    kernel = extract(f"{kernel_file(KERNELS)}::{name}", sig=SIGNATURE)
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))
    checked(emit_scheduled(kernel, H100, schedule))


@pytest.mark.parametrize("name", ["vectors", "matrices"])
def test_the_first_of_equal_elements_is_tritons(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(KERNELS)}::{name}", sig=SIGNATURE)
    for one in held(spec, Case({}, (1,), {"x": (512,), "y": (512,), "z": (512,)}, {"n": 1})):
        assert one.furthest < 64, one
