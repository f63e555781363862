"""`tl.gather` is emitted, of any axis and shape, and the machine code computes what the kernel does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.digits import gathered
from twill.trial.execute import checked

HEAD = """
@triton.jit
def k(x, g, y, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    at = i[:, None] * C + j[None, :]
"""
KERNELS = {
    "columns that are loaded": "    tl.store(y + at, tl.gather(tl.load(x + at), tl.load(g + at), 1))\n",
    "rows that are computed": """
    tl.store(y + at, tl.gather(tl.load(x + at), (i[:, None] ^ 1) + 0 * j[None, :], 0))
""",
    "more than there are": """
    v = tl.gather(tl.load(x + j).to(tl.float16), tl.load(g + tl.arange(0, R * C)), 0)
    tl.store(y + tl.arange(0, R * C), v.to(tl.float32))
""",
    "one of each row": """
    v = tl.gather(tl.load(x + at), tl.load(g + i)[:, None], 1)
    tl.store(y + i, tl.reshape(v, (R,)))
""",
    "of a product, in a loop": """
    acc = tl.zeros([R, C], tl.float32)
    for t in range(n):
        a = tl.load(x + t * R * C + at).to(tl.float16)
        acc = tl.gather(tl.dot(a, a, acc), tl.load(g + at), 1)
    tl.store(y + at, acc)
""",
}
SIG = ["x=*fp32:16", "g=*i32:16", "y=*fp32:16", "n=i32"]


@pytest.mark.parametrize("name", KERNELS)
def test_elements_that_indices_pick_are_moved(kernel_file: Callable[..., str], name: str) -> None:
    size = 64 if "product" in name else 16
    kernel = extract(f"{kernel_file(HEAD + KERNELS[name])}::k", sig=SIG, const=[f"R={size}", f"C={size}"])
    checked(emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))))


def test_an_index_that_the_tile_has_not_is_its_last() -> None:
    found = gathered(np.arange(6).reshape(2, 3), np.array([[0, 3, -1], [2, 1, 1 << 30]]), 1)
    assert found.tolist() == [[0, 2, 2], [5, 4, 5]]
