"""Rings of one slot: an MMA's slot is given back before its group waits for what is loaded behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from tests.kernels import H100
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.room import with_less_shared
from twill.codegen.verify.abstract_machine import verify
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.options import SolveOptions
from twill.solve import strategies
from twill.solve.pipeline import solve
from twill.zlp import grouping

KERNEL = """
@triton.jit
def k(q, r, g, k_ptr, v_ptr, gq, gr, N, B: tl.constexpr, D: tl.constexpr):
    o, c = tl.arange(0, B), tl.arange(0, D)
    at = (tl.program_id(0) * B + o)[:, None] * D + c[None, :]
    b_q, b_r, b_g = tl.load(q + at), tl.load(r + at), tl.load(g + at)
    accq, accr = tl.zeros((B, D), tl.float32), tl.zeros((B, D), tl.float32)
    for i in range(0, N, B):
        here = (i + o)[:, None] * D + c[None, :]
        b_k, b_v = tl.load(k_ptr + here), tl.load(v_ptr + here)
        w = tl.exp(tl.dot(b_q, tl.trans(b_k)))
        a = tl.dot(b_g, tl.trans(b_v))
        rk = tl.dot(b_r, tl.trans(b_k))
        d = w * 0.5
        gl = d * (a - rk * a)
        gu = -d * a
        accq = tl.dot(gl.to(tl.bfloat16), b_k, accq)
        accr = tl.dot(gu.to(tl.bfloat16), b_k, accr)
    tl.store(gq + at, accq.to(tl.bfloat16))
    tl.store(gr + at, accr.to(tl.bfloat16))
"""


@pytest.mark.parametrize("less", [0, 112 << 10, 120 << 10])
def test_no_group_waits_for_a_load_that_waits_for_its_own_mma(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch, less: int
) -> None:
    """The last MMA of an iteration reads `b_k`, of which there is one slot where shared memory is small, and the next
    iteration begins with MMAs of `b_v` and `b_k`."""

    def proposals(graph: CostedGraph, machine: Machine, least: int, *more: object) -> Sequence[grouping.Groups]:
        first = grouping.proposals(graph, machine, least)[0]
        second = {i.id for i in graph.instructions if i.name in ("w", "d", "accq") and "cast" not in i.op}
        return [tuple(first[i.id] if "load" in i.op else int(i.id in second) for i in graph.instructions)]

    monkeypatch.setattr(strategies, "grouping", SimpleNamespace(proposals=proposals))
    sig = [f"{name}=*bf16:16" for name in ("q", "r", "g", "k_ptr", "v_ptr", "gq", "gr")]
    kernel = extract(f"{kernel_file(KERNEL)}::k", sig=[*sig, "N=i32:16"], const=["B=64", "D=64"])
    small = with_less_shared(H100, less)
    made = lower(kernel.wired, solve(kernel.graph, small, SolveOptions(strategy="none", fuse=False)), small)
    assert (min(ring.depth for ring in made.arefs if ring.name == "k_ptr") == 1) == bool(less)
    assert verify(made) == ()
