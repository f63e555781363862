"""Maxima of tiles that have nothing but NaN, with more threads than elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import launch
from twill.kernel.problem import Case
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

KERNEL = """
@triton.jit
def k(x, y, z, B: tl.constexpr):
    row, o = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + row * B + o)
    tl.store(y + row * 2, tl.max(v, 0))
    tl.store(y + row * 2 + 1, tl.min(v, 0))
    tl.store(z + row * 2, tl.argmax(v, 0))
    tl.store(z + row * 2 + 1, tl.argmin(v, 0))
"""


@pytest.mark.parametrize("size", [16, 256])
def test_the_maximum_of_nan_alone_is_nan_and_its_index_0(kernel_file: Callable[..., str], size: int) -> None:
    """Threads without an element have none that counts."""
    sig = ("x=*fp32:16", "y=*fp32:16", "z=*i32:16")
    kernel = extract(f"{kernel_file(KERNEL)}::k", sig=sig, const=(f"B={size}",))
    made = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    given = launch(kernel.program, Case({}, (3,), {"x": (3 * size,), "y": (6,), "z": (6,)}, {}))
    x = given.arrays["x"].copy()
    x[size : 2 * size] = np.nan
    x[2 * size + 1 :] = np.nan
    found = verified(made.build.ptx, made.manifest, made.program, replace(given, arrays={**given.arrays, "x": x}))
    assert not found.said()
    assert np.isnan(found.arrays["y"][2:4]).all() and (found.arrays["z"][2:] == 0).all()
    assert (found.arrays["y"][4:] == x[2 * size]).all()
