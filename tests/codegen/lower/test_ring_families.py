"""Loads of the same tiles in several loops share a ring only with loads that as many loops read: every loop has a
cursor of its own in it, which tiles that fewer loops read do not move."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lower.candidates import candidates
from twill.codegen.lowering import lower_candidate
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import WarpProgram

KERNEL = """
@triton.jit
def k(x, w, y, n, B: tl.constexpr):
    rows, ks = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    for r in tl.static_range(2):
        for c in tl.static_range(LOOPS):
            acc = tl.zeros([B, B], tl.float32)
            for i in range(0, 2 * B, B):
                left = tl.load(x + (rows[:, None] + r * n) * 2 * B + (i + ks)[None, :])
                acc = tl.dot(left, tl.load(w + (i + c * n + ks)[:, None] * B + ks[None, :]), acc)
            tl.store(y + (rows[:, None] + (2 * r + c) * n) * B + ks[None, :], acc.to(tl.float16))
"""
SIG = [*(f"{name}=*fp16:16" for name in "xwy"), "n=i32:16"]


@pytest.mark.parametrize(("loops", "rings"), [("r, 2", 2), ("2", 1)])
def test_a_ring_has_loads_that_equally_many_loops_read(kernel_file: Callable[..., str], loops: str, rings: int) -> None:
    """The rows of r = 0 are read by both loops over c, those of r = 1 by one, or by both. (Warp groups that take turns
    keep no tiles for later loops.)"""
    kernel = extract(f"{kernel_file(KERNEL.replace('LOOPS', loops))}::k", sig=SIG, const=["B=64"])
    schedule = scheduled(kernel.program)
    alone = next(one for one in candidates(kernel.wired.program, schedule, H100) if not one.ping_pong and one.ctas == 1)
    program = lower_candidate(kernel.wired, schedule, H100, alone, "chosen", 1)
    assert isinstance(program, WarpProgram)
    assert sum(aref.name == "left" for aref in program.arefs) == rings
    assert verify(program) == ()
