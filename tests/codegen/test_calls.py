"""Functions that Triton does not inline, as they are told not to be, or return in several places: they are inlined."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generated.kernels import held
from tests.kernels import H100
from twill import exc
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import launch
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

FUNCTIONS = """
@triton.jit
def piecewise(x):
    if x % 5 == 3:
        return 1.0
    if x % 5 == 2:
        return 0.5
    return -1.0


@triton.jit(noinline=True)
def scaled(x, s):
    return x * s + 1.0, s


@triton.jit(noinline=True)
def left(at, x, n):
    if x > n:
        return
    tl.store(at, scaled(x.to(tl.float32), 2.0)[0])
"""
KERNELS = {
    "in a loop": """
@triton.jit
def k(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    g = 0.0
    for i in range(0, n):
        g += piecewise(i)
    tl.store(y + o, tl.load(x + o) * g)
""",
    "of several results, under a condition": """
@triton.jit
def k(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    g, s = scaled(piecewise(tl.program_id(0)), 3.0)
    if n > 3:
        g, s = scaled(g, piecewise(n))
    tl.store(y + o, tl.load(x + o) * g + s)
""",
    "that store, and return before they do": """
@triton.jit
def k(x, y, n, B: tl.constexpr):
    pid = tl.program_id(0)
    for i in range(0, n):
        left(y + pid * B + i, i + pid, 4)
    left(y + pid * B + B - 1, pid, 1)
""",
}
CASES = [Case({}, (3,), {"x": (192,), "y": (192,)}, {"n": n}) for n in (0, 5)]
SIGNATURE = ("x=*fp32:16", "y=*fp32:16", "n=i32")


@pytest.mark.parametrize("name", KERNELS)
def test_calls_compute_what_tritons_interpreter_does(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(FUNCTIONS + KERNELS[name])}::k", sig=SIGNATURE, const=["B=64"])
    for case in CASES:
        assert all(one.furthest == 0 for one in held(spec, case))


@pytest.mark.parametrize("name", KERNELS)
def test_machine_code_computes_what_the_tile_program_does(kernel_file: Callable[..., str], name: str) -> None:
    kernel = extract(f"{kernel_file(FUNCTIONS + KERNELS[name])}::k", sig=SIGNATURE, const=["B=64"])
    made = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    for case in CASES:
        assert not verified(made.build.ptx, made.manifest, made.program, launch(kernel.program, case)).said()


BRANCHES = """
@triton.jit
def larger(a, b):
    if tl.abs(a) >= tl.abs(b):
        return a
    return b


@triton.jit
def k(x, y, n, B: tl.constexpr):
    tl.store(y, tl.reduce(tl.load(x + tl.arange(0, B)), 0, larger))
"""


def test_fail_a_reduction_by_a_function_that_returns_in_two_places(kernel_file: Callable[..., str]) -> None:
    """It is done on whole tiles, of which each element would have to return where it does."""
    with pytest.raises(exc.UnsupportedOperation, match=r":\d+: unsupported reduction: its function has control flow"):
        extract(f"{kernel_file(BRANCHES)}::k", sig=SIGNATURE, const=["B=64"])
