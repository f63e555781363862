"""Scans are emitted for every layout of a tile, and the machine code computes what the tile program does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.generated.kernels import held
from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.warp.program import Scan
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked, execute

VECTORS = """
@triton.jit
def k(x, y, z, n):
    row = tl.program_id(0)
    at = tl.arange(0, 64)
    v = tl.load(x + row * 64 + at).to(tl.float32)
    tl.store(y + row * 64 + at, tl.cumsum(v, 0, reverse=True) + tl.sum(v))
    long = row * 2048 + tl.arange(0, 2048)
    w = tl.associative_scan(tl.load(z + long), 0, tl.standard._elementwise_max)
    tl.store(z + long, tl.cumsum(w, 0) + n)


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def products(x, y, z, n):
    at = tl.arange(0, 64)
    v = tl.load(x + at).to(tl.float32) * 0.125 + 1
    tl.store(y + at, tl.cumprod(v, 0) + tl.reduce(v, 0, times))
    w = tl.load(z + at)
    tl.store(z + at, tl.cumprod(w, 0, reverse=True) + tl.reduce(w, 0, times))
"""
MATRICES = """
@triton.jit
def k(x, y, z, n):
    rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 32)[None, :]
    at = tl.program_id(0) * 512 + rows * 32 + columns
    v = tl.load(x + at)
    tl.store(y + at, tl.cumsum(tl.cumsum(v.to(tl.float32), 0), 1, reverse=True))
    tl.store(z + at, tl.cumsum(tl.load(z + at), 0) + n)
"""
ACCUMULATORS = """
@triton.jit
def k(x, y, z, n):
    rows, columns = tl.arange(0, 64)[:, None], tl.arange(0, 64)[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(n):
        t = tl.load(x + i * 4096 + rows * 64 + columns)
        acc = tl.dot(t, t, acc)
    sums = tl.cumsum(tl.sum(acc, 1), 0)
    tl.store(y + rows * 64 + columns, tl.cumsum(acc, 0) + tl.cumsum(acc, 1) + sums[:, None])
    tl.store(z + tl.arange(0, 64), tl.cumsum(tl.sum(acc, 0), 0, reverse=True).to(tl.int32))
"""
KERNELS = {
    "vectors": (VECTORS, 3),
    "products": (VECTORS, 2),
    "matrices": (MATRICES, 3),
    "accumulators and their vectors": (ACCUMULATORS, 4),
}


@pytest.mark.parametrize("name", KERNELS)
def test_scans_of_any_layout_are_emitted(kernel_file: Callable[..., str], name: str) -> None:
    source, scans = KERNELS[name]
    sig = ["x=*fp16:16", "y=*fp32:16", "z=*i32:16", "n=i32"]
    kernel = extract(f"{kernel_file(source)}::{'products' if name == 'products' else 'k'}", sig=sig)
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))
    emission = emit_scheduled(kernel, H100, schedule)
    groups = [sum(isinstance(stmt, Scan) for stmt in group.stmts) for group in emission.program.groups]
    assert set(groups) <= {0, scans} and any(groups)
    checked(emission)


def test_cumulative_products_are_what_triton_makes_of_them(kernel_file: Callable[..., str]) -> None:
    spec = resolve(f"{kernel_file(VECTORS)}::products", sig=["x=*fp16:16", "y=*fp32:16", "z=*i32:16", "n=i32"])
    for one in held(spec, Case({}, (1,), {"x": (64,), "y": (64,), "z": (64,)}, {"n": 1})):
        assert one.furthest < 64, one


LONG = """
@triton.jit
def k(x, y):
    at = tl.program_id(0) * 4096 + tl.arange(0, 4096)
    tl.store(y + at, tl.cumsum(tl.load(x + at), 0))
"""


def test_running_sums_are_as_exact_as_those_of_threads_lanes_and_warps(kernel_file: Callable[..., str]) -> None:
    """Triton's order, in which a thread has a few neighbours, leaves 1.2e-7 of 4,096 normal numbers in the middle; sums
    that begin at what is before a run of 128 had 3.1e-7."""
    kernel = extract(f"{kernel_file(LONG)}::k", sig=["x=*fp32:16", "y=*fp32:16"])
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    x = np.random.default_rng(0).standard_normal((8, 4096)).astype(np.float32)
    launch = CheckedLaunch((8,), {"x": x.reshape(-1), "y": np.zeros(x.size, np.float32)}, {})
    done = execute(emission.build.ptx, emission.manifest, launch, {"x": "f32", "y": "f32"})
    exact = x.astype(np.float64).cumsum(1)
    assert done.findings == ()
    assert np.linalg.norm(done.arrays["y"].reshape(x.shape) - exact) < 1.4e-7 * np.linalg.norm(exact)
