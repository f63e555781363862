"""Axes along which a tensor is repeated (a stride of 0, as `Tensor.expand` has it) have elements everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.warp.expression import Apply, Number
from twill.codegen.warp.multiples import multiple_of
from twill.runtime.plan import within
from twill.runtime.tensor_map import MAX_SIZE
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import TRIED, small, verified

ROWS = """
@triton.jit
def k(x, y, s, n, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for t in range(n):
        a = tl.load(x + t * s + i[:, None] * B + j[None, :])
        acc = tl.dot(a, a, acc)
    tl.store(y + i[:, None] * B + j[None, :], acc)
"""


def test_a_tensor_repeated_along_an_axis_is_loaded_there(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(ROWS)}::k", sig=["x=*fp16:16", "y=*fp32:16", "s=i32:16", "n=i32"], const=["B=64"])
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    assert any(None in entry.sizes and len(entry.sizes) == 3 for entry in emission.manifest.maps)
    launch = small(emission.program, TRIED, None)[0]
    repeated = replace(launch, grid=(1,), scalars={"n": 2, "s": 0})
    assert not verified(emission.build.ptx, emission.manifest, emission.program, repeated).said()


def test_an_axis_that_stays_in_place_has_no_end() -> None:
    assert within(4096, 0) == MAX_SIZE
    assert (within(4096, 64), within(4090, 64), within(0, 64)) == (64, 64, 1)


def test_what_infinity_is_a_multiple_of_is_not_known() -> None:
    assert multiple_of(Apply("add", (Number(float("inf"), "f32"), Number(16, "f32")), "f32"), {}, {}) == 1
