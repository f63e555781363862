"""Tiles that are more than the registers of a thread are spilled where nothing else is left, and right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill import exc
from twill.codegen import emission
from twill.codegen.emission import emit_solved, extract, with_slow_builds
from twill.codegen.verify.abstract.static import static_violations
from twill.codegen.verify.abstract_machine import verify
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

CROWDED = """
@triton.jit
def k(x, w, y, K, B: tl.constexpr, N: tl.constexpr):
    r, c, n = tl.arange(0, B), tl.arange(0, B), tl.arange(0, N)
    t0, t1 = tl.zeros((B, N), tl.float32), tl.zeros((B, N), tl.float32)
    for i in range(0, K, B):
        a = tl.load(x + (tl.program_id(0) * B + r)[:, None] * K + (i + c)[None, :])
        at = w + (i + c)[:, None] * (2 * N) + n[None, :]
        t0 += tl.dot(a, tl.load(at))
        t1 += tl.dot(a, tl.load(at + N))
    u = t0 * t1
    e0 = tl.exp(t0 - tl.max(t0, 1)[:, None])
    e1 = tl.exp(t1 - tl.max(t1, 1)[:, None])
    e2 = tl.exp(u - tl.max(u, 1)[:, None])
    n0, n1, n2 = tl.sum(e0, 1)[:, None], tl.sum(e1, 1)[:, None], tl.sum(e2, 1)[:, None]
    to = y + (tl.program_id(0) * B + r)[:, None] * N + n[None, :]
    tl.store(to, (e0 / n0 * t1 + e1 / n1 * t0 + e2 / n2 * u).to(tl.bfloat16))
"""


def briefly(graph: DependenceGraph, machine: Machine) -> Schedule:
    try:
        return solve(graph, machine, SolveOptions(strategy="heuristic", fuse=False))
    except exc.StrategyGaveUp as gave_up:
        raise exc.Infeasible(gave_up.message) from gave_up


def test_tiles_beyond_all_registers_are_emitted_as_a_last_resort(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two results of 64 registers, and four tiles that are made of them, are alive at once. The abstract machine counts
    them, but what is spilled the compiler says: that no budget holds them is no fault of a program that is built.
    (Iterations that do not overlap, with which two CTAs share an SM and have no budgets, are left out here.)"""
    monkeypatch.setattr(emission, "without_overlap", lambda schedule, graph, machine: None)
    monkeypatch.setattr(emission, "refuse_unlowerable", lambda wired, machine: briefly(wired.graph, machine))
    monkeypatch.setattr(emission, "in_program_order", lambda graph, machine, asked: None)
    sig = ("x=*bf16:16", "w=*bf16:16", "y=*bf16:16", "K=i32:16")
    kernel = extract(f"{kernel_file(CROWDED)}::k", sig=sig, const=("B=64", "N=128"))
    with pytest.raises(exc.BuildRejected, match="are alive at once"):
        emit_solved(kernel, H100, briefly)
    made = with_slow_builds(lambda: emit_solved(kernel, H100, briefly))
    assert made.facts.spill_stores > 0
    assert {one.rule for one in static_violations(made.program)} == {"registers"}
    assert not verify(made.program, spilling=True)
    assert not checked(made).said()
