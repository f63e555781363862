"""Launches that are seen where nothing is launched."""

from __future__ import annotations

from collections.abc import Callable

from twill.kernel.gpu_free import gpu_free
from twill.kernel.importing import load
from twill.kernel.launches import Launch, not_launched

ROWS = """
@triton.jit
def rows(x, n, B: tl.constexpr, num_stages: tl.constexpr):
    tl.store(x + tl.arange(0, B), n)
"""


def test_a_launch_of_what_was_compiled_before_is_seen(kernel_file: Callable[..., str]) -> None:
    """As Triton's softmax tutorial launches, which asks the compiled kernel for its registers first."""
    kernel = load(str(kernel_file(ROWS))).functions["rows"]
    seen: list[Launch] = []
    with gpu_free("cpu"), not_launched(seen.append):
        compiled = kernel.warmup(7, 5, B=64, num_stages=4, num_warps=8, grid=(1,))
        assert seen == []
        compiled[(3, 1, 1)](7, 5, 64, 4)
        compiled[(2,)](7, 6)
    assert [(one.grid, one.arguments["n"], one.arguments["B"]) for one in seen] == [((3, 1, 1), 5, 64), ((2,), 6, 64)]
    assert all(one.options["num_warps"] == 8 and one.arguments["num_stages"] == 4 for one in seen)
