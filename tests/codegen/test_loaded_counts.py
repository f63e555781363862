"""Loops whose trip counts are loaded: every warp group looks the number up for itself, once for a program instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launch
from twill.codegen.verify.abstract_machine import trials
from twill.kernel.problem import Case
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

GEMM = """
@triton.jit
def k(a, b, c, counts, sa, B: tl.constexpr):
    i = tl.program_id(0)
    n = tl.load(counts + i)
    rows, ks = i * B + tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for k in range(0, n, B):
        x = tl.load(a + rows[:, None] * sa + (k + ks)[None, :], mask=(k + ks)[None, :] < n, other=0.0)
        y = tl.load(b + (k + ks)[:, None] * B + ks[None, :], mask=(k + ks)[:, None] < n, other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * B + ks[None, :], acc.to(tl.float16))
"""
SEQUENCES = """
@triton.jit
def k(a, b, c, counts, sa, B: tl.constexpr):
    i = tl.program_id(0)
    s = tl.zeros([B], tl.float32)
    for t in range(tl.load(counts + i), tl.load(counts + i + 1)):
        s += tl.load(a + t * B + tl.arange(0, B)).to(tl.float32)
        tl.store(c + t * B + tl.arange(0, B), s.to(tl.float16))
"""
SIG = ["a=*fp16:16", "b=*fp16:16", "c=*fp16:16", "counts=*i32", "sa=i32:16"]


def gemm(made: Mapping[str, np.ndarray], counts: list[int]) -> np.ndarray:
    a, b = made["a"].astype(np.float64).reshape(-1, 256), made["b"].astype(np.float64).reshape(256, 64)
    return np.concatenate([a[i * 64 : i * 64 + 64, : max(n, 0)] @ b[: max(n, 0)] for i, n in enumerate(counts)])


def sequences(made: Mapping[str, np.ndarray], starts: list[int]) -> np.ndarray:
    a, c = made["a"].astype(np.float64).reshape(-1, 64), made["c"].astype(np.float64).reshape(-1, 64).copy()
    for begin, end in zip(starts, starts[1:], strict=False):
        c[begin:end] = np.cumsum(a[begin:end], axis=0)
    return c


CASES = {
    "counts of one number each": (GEMM, gemm, [200, 0, 64, -5, 1], {"a": (320, 256), "b": (256, 64), "c": (320, 64)}),
    "sequences between two numbers": (SEQUENCES, sequences, [0, 3, 3, 10, 11], {"a": (16, 64), "c": (16, 64)}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_loop_runs_as_often_as_the_loaded_number_says(kernel_file: Callable[..., str], name: str) -> None:
    source, expected, counts, shapes = CASES[name]
    kernel = extract(f"{kernel_file(source)}::k", sig=SIG, const=["B=64"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))
    emission = emit_scheduled(kernel, H100, schedule)
    programs = len(counts) - (name != "counts of one number each")
    case = Case({}, (programs,), {"b": (16,), **shapes, "counts": (len(counts),)}, {"sa": 256})
    made = launch(kernel.program, case)
    made = replace(made, arrays={**made.arrays, "counts": np.array(counts, np.int32)})
    execution = verified(emission.build.ptx, emission.manifest, emission.program, made)
    assert execution.said() == []
    wanted = expected(made.arrays, counts)
    assert np.allclose(execution.arrays["c"].reshape(wanted.shape), wanted, rtol=1e-2, atol=1e-2 * np.abs(wanted).max())
    assert {ran for trial in trials(emission.program) for ran in trips(trial.launch, counted=name)} >= {0, 1, 2, 3, 4}


def trips(made: CheckedLaunch, counted: str) -> list[int]:
    """How often the loop of each program instance of a launch runs."""
    counts = made.arrays["counts"]
    if counted == "counts of one number each":
        return [max(0, -(-int(n) // 64)) for n in counts]
    return [max(0, int(end) - int(begin)) for begin, end in zip(counts, counts[1:], strict=False)]
