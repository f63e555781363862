"""Products and sums of 16-bit floats in modules of Gluon, which Triton's compiler rounds once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import extract
from twill.codegen.gluon import emit_gluon
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.gluon import checked

KERNEL = """
@triton.jit
def k(x, w, y, n, KIND: tl.constexpr):
    i, j = tl.program_id(0) * 128 + tl.arange(0, 128), tl.arange(0, 64)
    acc = tl.zeros((128, 64), tl.float32)
    for k in range(0, n, 64):
        a = tl.load(x + i[:, None] * n + (k + j)[None, :])
        acc = tl.dot(a, tl.load(w + (k + j)[:, None] * 64 + j[None, :]), acc)
    r = acc.to(KIND)
    r = (r * r - r) * r + r
    tl.store(y + i[:, None] * 64 + j[None, :], r - r * r)
"""


@pytest.mark.parametrize(("kind", "type"), [("bf16", "bfloat16"), ("fp16", "float16")])
def test_results_are_those_of_the_tile_program(kernel_file: Callable[..., str], kind: str, type: str) -> None:
    sig = (f"x=*{kind}:16", f"w=*{kind}:16", f"y=*{kind}:16", "n=i32:16")
    kernel = extract(f"{kernel_file(KERNEL)}::k", None, sig, (f"KIND=tl.{type}",))
    emission = emit_gluon(kernel, H100, lambda graph, on: solve(graph, on, SolveOptions(fuse=False)))
    assert sum(op.kind == "fma" for op in kernel.program.ops()) == 3
    assert "equal to the tile program, nothing found" in checked(emission, kernel.specialization)
