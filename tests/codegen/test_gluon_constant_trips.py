"""Loops whose number of iterations is known when the kernel is compiled, as modules of Gluon."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import extract
from twill.codegen.gluon import emit_gluon
from twill.codegen.print.gluon.decided import verdict
from twill.codegen.warp.expression import Apply, Expr, Local, Number, less
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

KERNEL = """
@triton.jit
def k(x, w1, w2, y, M, H: tl.constexpr):
    i, d = tl.program_id(0) * 128 + tl.arange(0, 128), tl.arange(0, 64)
    xs = tl.load(x + i[:, None] * 64 + d[None, :], mask=i[:, None] < M, other=0.0)
    acc = tl.zeros((128, 64), tl.float32)
    for h in range(0, H, 64):
        l = h + tl.arange(0, 64)
        hidden = tl.maximum(tl.dot(xs, tl.load(w1 + d[:, None] * H + l[None, :])), 0.0)
        acc = tl.dot((hidden * hidden).to(tl.bfloat16), tl.load(w2 + l[:, None] * 64 + d[None, :]), acc)
    tl.store(y + i[:, None] * 64 + d[None, :], acc.to(tl.bfloat16), mask=i[:, None] < M)
"""
SIG = ("x=*bf16:16", "w1=*bf16:16", "w2=*bf16:16", "y=*bf16:16", "M=i32")


@pytest.mark.parametrize("hidden", [128, 256])
def test_turns_that_their_number_decides_are_in_module_and_ptx_or_in_neither(
    hidden: int, kernel_file: Callable[..., str]
) -> None:
    """Two warp groups take turns; in which iteration the first turn and the last one are is known."""
    kernel = extract(f"{kernel_file(KERNEL)}::k", None, SIG, (f"H={hidden}",), Allowed(conditional=False))
    options = SolveOptions(fuse=False, blocks=2)
    emission = emit_gluon(kernel, H100, lambda graph, on: solve(graph, on, options))
    assert "named_barrier" in emission.module.text
    assert "nothing found" in checked(emission, kernel.specialization)


STEP = Local("step")


@pytest.mark.parametrize(
    ("condition", "known"),
    [
        (less(STEP, Number(1)), False),
        (less(Number(0), STEP), True),
        (less(Number(2), STEP), None),
        (less(STEP, Local("n")), None),
        (Apply("and", (less(STEP, Number(1)), less(STEP, Local("n"))), "i1"), False),
        (less(Apply("div", (Number(319), Number(64)), "i32", (("signed", 1),)), STEP), False),
    ],
)
def test_a_condition_is_decided_where_it_is_the_same_in_every_iteration(condition: Expr, known: bool | None) -> None:
    assert verdict(condition, {"step": (1, 2, 3)}) is known
    assert verdict(condition, {}) is None
    assert verdict(condition, {"step": ()}) is None
