"""Straight-line code in which warp groups wait for one another: each waits where it reads, not in front of its code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.warp.program import Get, Publish
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

CROSSED = """
@triton.jit
def k(a, b, c, d, e, n, B: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, B)
    at = i[:, None] * B + j[None, :]
    x = tl.load(a + at)
    s = tl.zeros([B, B], tl.float32)
    t = tl.zeros([B, B], tl.float32)
    for step in range(n):
        s = tl.dot(x, tl.load(b + step * B * B + at), s)
        t = tl.dot(x, tl.load(c + step * B * B + at), t)
    tl.store(e + at, s)
    t = tl.dot(t.to(tl.float16), x)
    t = tl.dot(x, t.to(tl.float16))
    y = (t * 0.5).to(tl.float16)
    for step in range(n):
        v = tl.dot(y, tl.load(b + step * B * B + at))
        w = tl.dot(tl.trans(y), tl.load(c + step * B * B + at))
        tl.store(d + step * B * B + at, v)
        tl.store(e + (step + 1) * B * B + at, w)
"""
SIG = [*(f"{name}=*fp16:16" for name in "abc"), "d=*fp32:16", "e=*fp32:16", "n=i32"]
PINS = ("s!~t",)


def test_a_warp_group_gives_what_another_waits_for_before_it_waits_itself(kernel_file: Callable[..., str]) -> None:
    """Both computing warp groups multiply `t`, which is in the registers of the second one, and the first one gives the
    second what comes of it: the second waited for that before it gave its own. What is emitted has the abstract
    machine's consent."""
    kernel = extract(f"{kernel_file(CROSSED)}::k", sig=SIG, const=["B=64"])
    schedule = solve(kernel.graph, H100, SolveOptions(blocks=1, fuse=False, budget=60, pins=PINS))
    program = emit_scheduled(kernel, H100, schedule).program
    filled = {ring.id: ring.producer for ring in program.arefs if ring.transport == "registers"}
    assert set(filled.values()) == {0, 1}
    second = program.groups[1]
    order = [
        (type(stmt).__name__, filled[second.cursor(stmt.cursor).aref])
        for stmt in second.body
        if isinstance(stmt, Get | Publish) and second.cursor(stmt.cursor).aref in filled
    ]
    assert order.index(("Publish", 1)) < order.index(("Get", 0))


GOING_ON = """
@triton.jit
def k(a, b, c, d, e, n, B: tl.constexpr, TWICE: tl.constexpr):
    i, j = tl.arange(0, B), tl.arange(0, B)
    at = i[:, None] * B + j[None, :]
    x = tl.load(a + at)
    s = tl.zeros([B, B], tl.float32)
    r = tl.zeros([B], tl.float32)
    for step in range(n):
        p = tl.dot(x, tl.load(b + step * B * B + at))
        r = r * 0.5 + tl.max(p, 1)
        s = tl.dot(x, tl.load(c + step * B * B + at), s)
    if TWICE:
        r = r * 2
    for step in range(n):
        v = tl.dot(x, tl.load(c + step * B * B + at))
        s = s + v * r[:, None]
        p = tl.dot(x, tl.load(b + step * B * B + at))
        r = r * 0.5 + tl.max(p, 1)
    tl.store(d + at, s)
    tl.store(e + i, r)
"""


def test_a_loop_reads_from_another_warp_group_what_that_one_carried_from_loop_to_loop(
    kernel_file: Callable[..., str],
) -> None:
    """`r` is made in one group in both loops; the other one reads it in the second loop alone, that of the iteration
    before, which is at first what the first loop left."""
    kernel = extract(f"{kernel_file(GOING_ON)}::k", sig=SIG, const=["B=64", "TWICE=False"])
    schedule = solve(kernel.graph, H100, SolveOptions(blocks=1, fuse=False, budget=60, pins=("r!~s",)))
    checked(emit_scheduled(kernel, H100, schedule))


@pytest.mark.parametrize("twice", [False, True])
def test_a_loop_goes_on_in_one_warp_group_with_what_another_one_left(
    twice: bool, kernel_file: Callable[..., str]
) -> None:
    """Also where straight-line code works on it between the loops."""
    kernel = extract(f"{kernel_file(GOING_ON)}::k", sig=SIG, const=["B=64", f"TWICE={twice}"])
    schedule = solve(kernel.graph, H100, SolveOptions(blocks=1, fuse=False, budget=60, pins=("r!~s",)))
    last = max(op.loop for op in schedule.ops)
    ops = tuple(
        op.model_copy(update={"warp_group": {0: 1, 1: 0}.get(op.warp_group, op.warp_group)}) if op.loop == last else op
        for op in schedule.ops
    )
    checked(emit_scheduled(kernel, H100, schedule.model_copy(update={"ops": ops})))
