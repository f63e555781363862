"""Kernels with small products: CTAs share an SM, and straight-line code has the warp groups that do something."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.schedule.document import Schedule, Strategy
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

KERNEL = """
@triton.jit
def k(a, b, scales, u, w, M: tl.constexpr, PARTS: tl.constexpr):
    p, r, c = tl.program_id(0), tl.arange(0, M), tl.arange(0, 64)
    at = p * M * 64 * PARTS + r[:, None] * 64 * PARTS + c[None, :]
    x = tl.load(a + p * M * M + r[:, None] * M + r[None, :])
    s = tl.load(scales + p * M + r)
    for part in range(PARTS):  # Triton inlines a loop of one iteration
        y = tl.load(b + at + part * 64)
        tl.store(u + at + part * 64, tl.dot(x, (y * s[:, None]).to(y.dtype)).to(y.dtype))
        tl.store(w + at + part * 64, tl.dot(tl.trans(x), y).to(y.dtype))
"""


@cache
def emitted(file: str, parts: int, strategy: Strategy = "heuristic") -> tuple[Schedule, Emission]:
    sig = [f"{name}=*bf16:16" for name in ("a", "b", "scales", "u", "w")]
    kernel = extract(f"{file}::k", sig=sig, const=("M=64", f"PARTS={parts}"))
    schedule = solve(kernel.graph, H100, SolveOptions(strategy=strategy))
    return schedule, emit_scheduled(kernel, H100, schedule)


@pytest.mark.parametrize("parts", [1, 2])
def test_their_ctas_share_an_sm(kernel_file: Callable[..., str], parts: int) -> None:
    _, made = emitted(kernel_file(KERNEL), parts)
    assert made.program.ctas > 1 and not made.facts.spill_stores
    threads = (
        -(-made.program.ctas * made.printed.threads // 128) * 128
    )  # registers are handed out to four warps at a time
    assert f"__maxnreg__({65536 // threads // 8 * 8})" in made.build.source
    assert made.facts.registers <= 65536 // threads
    checked(made)


def test_straight_line_code_has_no_group_that_does_nothing(kernel_file: Callable[..., str]) -> None:
    schedule, made = emitted(kernel_file(KERNEL), 1, "joint")
    assert all(group.stmts for group in made.program.groups)
    assert [group.issuer for group in made.program.groups] == [False, True]
    assert len(schedule.warp_groups) > len(made.program.groups)


SCALED = """
@triton.jit
def k(x, scale, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(x + at, tl.load(x + at) * tl.load(scale))
"""


def test_an_sm_has_no_more_ctas_than_threads_for_them(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(SCALED)}::k", sig=["x=*bf16:16", "scale=*fp32"], const=["N=256"])
    made = emit_scheduled(kernel, H100, solve(kernel.graph, H100))
    assert 1 < made.program.ctas * made.printed.threads <= 2048
    assert "out of range" not in made.build.log
