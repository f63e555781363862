"""A loop in a loop that ends elsewhere in every row: emitted, with the abstract machine's consent, and right in PTX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import launch
from twill.kernel.problem import Case
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

BLOCKS = """
@triton.jit
def k(a, b, c, n, B: tl.constexpr):
    r = tl.arange(0, B)
    for i in range(0, n, B):
        acc = tl.zeros([B, B], tl.float32)
        for k in range(0, i + B, B):
            x = tl.load(a + (i + r)[:, None] * n + (k + r)[None, :])
            acc = tl.dot(x, tl.load(b + (k + r)[:, None] * B + r[None, :]), acc)
        tl.store(c + (i + r)[:, None] * B + r[None, :], acc.to(tl.float16))
"""
SIG = ["a=*fp16:16", "b=*fp16:16", "c=*fp16:16", "n=i32:16"]


def test_a_product_of_the_blocks_below_the_diagonal(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(BLOCKS)}::k", sig=SIG, const=["B=64"])
    options = SolveOptions(strategy="heuristic", fuse=False)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, options))
    made = launch(kernel.program, Case({}, (1,), {"a": (192, 192), "b": (192, 64), "c": (192, 64)}, {"n": 192}))
    execution = verified(emission.build.ptx, emission.manifest, emission.program, made)
    assert execution.said() == []
    a, b = made.arrays["a"].astype(np.float64).reshape(192, 192), made.arrays["b"].astype(np.float64).reshape(192, 64)
    wanted = np.concatenate([a[i : i + 64, : i + 64] @ b[: i + 64] for i in (0, 64, 128)])
    found = execution.arrays["c"].reshape(192, 64)
    assert np.allclose(found, wanted, rtol=1e-2, atol=1e-2 * np.abs(wanted).max())
