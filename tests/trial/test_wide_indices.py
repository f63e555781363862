"""Elements behind the 2^31st of a tensor: what a kernel computes in 64 bits is computed so by what is emitted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import emit_solved, extract
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.trial.execute import verified

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def flat(x, y, n, B: tl.constexpr, FAR: tl.constexpr):
    o = (tl.program_id(0).to(tl.int64) + FAR) * B + tl.arange(0, B)
    inside = o < n
    tl.store(y + (o - FAR * B), tl.load(x + (o - FAR * B), mask=inside, other=0.0) + 1, mask=inside)
"""


@pytest.mark.parametrize("far", [1 << 20, 1 << 23])
def test_bounds_and_indices_of_64_bits_are_compared_in_64_bits(tmp_path: Path, far: int) -> None:
    """The tensor begins `far` tiles in front of what is looked at: 2^30 or 2^33 elements."""
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "n=i64")
    kernel = extract(f"{tmp_path / 'k.py'}::flat", sig=sig, const=("B=1024", f"FAR={far}"))
    emission = emit_solved(kernel, H100, lambda graph, machine: scheduled(kernel.program))
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(3072).astype(np.float32) for name in ("x", "y")}
    launch = CheckedLaunch((3,), arrays, {"n": far * 1024 + 2500})
    found = verified(emission.build.ptx, emission.manifest, emission.program, launch)
    assert not found.said()
    assert np.array_equal(found.arrays["y"][:2500], arrays["x"][:2500] + 1)
    assert np.array_equal(found.arrays["y"][2500:], arrays["y"][2500:])
