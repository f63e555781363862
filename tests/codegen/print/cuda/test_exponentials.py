"""Promises of exponentials without the unit of special functions: as exact as ex2.approx, with its special cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.run_cache import once
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.verify.ptx.run import PointerArgument, PtxLaunch, execute
from twill.ptx.approximate import ERROR
from twill.ptx.parse import parse

THREADS, CTAS = 512, 16
KERNEL = """extern "C" __global__ void k(const float* x, float* y, float* kept) {
  const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  ex2_polynomial(y[i], y[i + 1], x[i], x[i + 1]);
  ex2_polynomial_subnormal(kept[i], kept[i + 1], x[i], x[i + 1]);
}
"""
SPECIAL = (0.0, -0.0, 1.0, -1.0, 127.0, -126.0, 1e-30, -1e-30, 127.99999, -125.99999, 63.5, -0.99999994, 0.99999994)


def exponentials(values: Any) -> tuple[Any, Any]:
    """What the two functions make of float32 values, executed."""
    ptx = once("ptx-exponentials", lambda: compile_cubin(KERNEL, "sm_100a").ptx)
    given = np.resize(np.asarray(values, np.float32), 2 * THREADS * CTAS)
    tensors = {"x": given, "y": np.zeros_like(given), "kept": np.zeros_like(given)}
    launch = PtxLaunch([PointerArgument(name) for name in tensors], tensors, (CTAS, 1, 1), THREADS)
    result = execute(parse(ptx), "k", launch)
    assert not result.findings
    count = len(values)
    return result.tensors["y"][:count], result.tensors["kept"][:count]


def test_every_result_is_within_the_error_that_ex2_approx_has() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([SPECIAL, rng.uniform(-126, 128, 8000), rng.uniform(-1, 1, 8000)]).astype(np.float32)
    right = np.exp2(x.astype(np.float64))
    for found in exponentials(x):
        assert np.abs(found / right - 1).max() < ERROR["ex2"].size


def test_whole_numbers_are_exact() -> None:
    """Of float32, NumPy's own powers of two are not: on some processors 2 to the power of 127 is another number."""
    x = np.arange(-126, 128)
    for found in exponentials(x.astype(np.float32)):
        assert (found == np.ldexp(np.float32(1), x)).all()


@pytest.mark.parametrize(
    ("x", "y"), [(-np.inf, 0.0), (np.inf, np.inf), (128.0, np.inf), (1e9, np.inf), (-1e9, 0.0), (-151.0, 0.0)]
)
def test_what_leaves_the_range_is_zero_or_infinite(x: float, y: float) -> None:
    flushed, kept = exponentials([x])
    assert flushed[0] == kept[0] == y


def test_results_below_the_normal_numbers_are_zero_or_kept() -> None:
    x = np.array([-126.5, -127.0, -140.25, -148.5], np.float32)
    flushed, kept = exponentials(x)
    assert (flushed == 0).all()
    assert np.abs(kept.astype(np.float64) - np.exp2(x.astype(np.float64))).max() <= 2.0**-149


def test_no_number_stays_none() -> None:
    flushed, kept = exponentials([np.nan, 1.0])
    assert np.isnan(flushed[0]) and np.isnan(kept[0]) and flushed[1] == kept[1] == 2.0
