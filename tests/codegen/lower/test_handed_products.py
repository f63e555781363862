"""Results of MMAs that other warp groups read: handed over before their group waits for what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from tests.kernels import H100
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import WarpProgram
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.options import SolveOptions
from twill.solve import strategies
from twill.solve.pipeline import solve
from twill.zlp import grouping

THERE_AND_BACK = """
@triton.jit
def k(q, w, k_ptr, o_ptr, N, B: tl.constexpr, D: tl.constexpr):
    o, c = tl.arange(0, B), tl.arange(0, D)
    at = (tl.program_id(0) * B + o)[:, None] * D + c[None, :]
    b_q, b_w = tl.load(q + at), tl.load(w + at)
    acc = tl.zeros((B, B), tl.float32)
    for i in range(0, N, B):
        b_k = tl.load(k_ptr + (i + o)[:, None] * D + c[None, :])
        first = tl.dot(b_q, tl.trans(b_k))
        away = tl.exp(first).to(tl.bfloat16)
        second = tl.dot(b_w, away)
        acc += tl.exp(second)
    tl.store(o_ptr + (tl.program_id(0) * B + o)[:, None] * B + o[None, :], acc)
"""

IN_BLOCKS = """
@triton.jit
def k(q, k_ptr, o_ptr, N, B: tl.constexpr, D: tl.constexpr):
    o, c = tl.arange(0, B), tl.arange(0, D)
    at = (tl.program_id(0) * B + o)[:, None] * D + c[None, :]
    b_q = tl.load(q + at)
    acc = tl.zeros((B, 4), tl.float32)
    for i in range(0, N, B):
        b_k = tl.load(k_ptr + (i + o)[:, None] * D + c[None, :])
        blocks = tl.reshape(tl.dot(b_q, tl.trans(b_k)), (B, 4, B // 4))
        away = tl.exp(blocks)
        acc += tl.sum(away, axis=2)
    tl.store(o_ptr + (tl.program_id(0) * B + o)[:, None] * 4 + tl.arange(0, 4)[None, :], acc)
"""


def in_two_groups(
    monkeypatch: pytest.MonkeyPatch, file: str, sig: Sequence[str], away: Callable[[str, str], bool]
) -> WarpProgram:
    """The kernel, one iteration at a time. away: what the second computing warp group does, by name and operation."""

    def proposals(graph: CostedGraph, machine: Machine, least: int, *more: object) -> Sequence[grouping.Groups]:
        first = grouping.proposals(graph, machine, least)[0]
        second = {i.id for i in graph.instructions if away(i.name, i.op)}
        return [tuple(first[i.id] if "load" in i.op else int(i.id in second) for i in graph.instructions)]

    monkeypatch.setattr(strategies, "grouping", SimpleNamespace(proposals=proposals))
    kernel = extract(f"{file}::k", sig=sig, const=["B=64", "D=64"])
    return lower(kernel.wired, solve(kernel.graph, H100, SolveOptions(strategy="none", fuse=False)), H100)


def test_a_result_is_handed_over_before_its_group_waits_for_a_tile_that_is_made_of_it(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sig = [*(f"{name}=*bf16:16" for name in ("q", "w", "k_ptr")), "o_ptr=*fp32:16", "N=i32:16"]
    made = in_two_groups(
        monkeypatch, kernel_file(THERE_AND_BACK), sig, lambda name, op: name in ("first", "away") and op != "dot"
    )
    assert sum(any(ring.producer == group.id for ring in made.arefs) for group in made.groups) == 3
    assert verify(made) == ()


def test_a_tile_of_three_axes_goes_from_group_to_group_as_a_row_of_elements(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sig = ["q=*bf16:16", "k_ptr=*bf16:16", "o_ptr=*fp32:16", "N=i32:16"]
    made = in_two_groups(monkeypatch, kernel_file(IN_BLOCKS), sig, lambda name, op: "reduce" in op)
    assert any(buffer.shape == (64 * 64,) for buffer in made.buffers)
    assert verify(made) == ()
