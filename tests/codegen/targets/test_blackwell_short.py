"""Promises of products of fewer rows than tensor memory has: they are transposed, and what follows of them, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from twill.codegen.emission import Extracted, emit_scheduled, extract
from twill.machine.file import load_machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

DECODE = """
@triton.jit
def k(q, keys, values, o, N, scale, D: tl.constexpr, G: tl.constexpr, BN: tl.constexpr):
    g, d, h = tl.arange(0, G), tl.arange(0, D), tl.program_id(0)
    qt = tl.load(q + (h * G + g)[:, None] * D + d[None, :])
    m, l = tl.full((G,), float("-inf"), tl.float32), tl.zeros((G,), tl.float32)
    acc = tl.zeros((G, D), tl.float32)
    for i in range(0, N, BN):
        n = i + tl.arange(0, BN)
        kt = tl.load(keys + (h * N + n)[:, None] * D + d[None, :], mask=n[:, None] < N, other=0.0)
        vt = tl.load(values + (h * N + n)[:, None] * D + d[None, :], mask=n[:, None] < N, other=0.0)
        s = tl.where(n[None, :] < N, tl.dot(qt, tl.trans(kt)) * scale, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p, r = tl.exp(s - new[:, None]), tl.exp(m - new)
        l, m = l * r + tl.sum(p, 1), new
        acc = acc * r[:, None] + tl.dot(p.to(vt.dtype), vt)
    tl.store(o + (h * G + g)[:, None] * D + d[None, :], (acc / l[:, None]).to(tl.bfloat16))
"""
SIG = ("q=*bf16:16", "keys=*bf16:16", "values=*bf16:16", "o=*bf16:16", "N=i32", "scale=fp32:positive")


def read(kernel_file: Callable[..., str], heads: int) -> Extracted:
    return extract(f"{kernel_file(DECODE)}::k", sig=SIG, const=("D=64", f"G={heads}", "BN=64"))


def results(kernel: Extracted) -> list[tuple[int, ...]]:
    """Shapes of the results of products."""
    program = kernel.program
    return [program.type_of(op.results[0]).shape for op in program.ops() if op.kind == "dot"]


@pytest.mark.parametrize("heads", [16, 32])
def test_heads_that_share_keys_and_are_fewer_than_rows_are_columns(heads: int, kernel_file: Callable[..., str]) -> None:
    """Scores, softmax and the weighted sum of values are made transposed, and stored as they were."""
    machine = load_machine("b200")
    kernel = read(kernel_file, heads).on(machine)
    assert results(kernel) == [(64, heads), (64, heads)]
    schedule = solve(kernel.graph, machine, SolveOptions(strategy="heuristic", fuse=False))
    checked(emit_scheduled(kernel, machine, schedule))


def test_products_of_as_many_rows_as_there_are_stay_as_they_are(kernel_file: Callable[..., str]) -> None:
    kernel = read(kernel_file, 64)
    assert kernel.on(load_machine("b200")) is kernel
    short = read(kernel_file, 16)
    assert short.on(load_machine("h100")) is short
