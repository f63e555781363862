"""Products whose operands have no side of 64 and have to be converted by threads: tiles of 16 x 16 and their like."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import B200, H100
from twill.codegen.emission import emit_scheduled, emit_solved, extract
from twill.codegen.targets.base import target_of
from twill.exc import UnsupportedInKernel
from twill.machine.description import Machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

KERNEL = """
@triton.jit
def k(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    p, rm, rn, rk = tl.program_id(0), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + p * M * K + rm[:, None] * K + rk[None, :])
    y = tl.load(b + p * N * K + rk[:, None] * N + rn[None, :])
    tl.store(c + p * M * N + rm[:, None] * N + rn[None, :], tl.dot(x, y))
"""


@pytest.mark.parametrize(
    ("element", "m", "n", "k", "machine"),
    [("fp32", 16, 16, 16, H100), ("fp32", 128, 16, 32, H100), ("i8", 16, 16, 32, H100), ("fp32", 64, 16, 32, B200),
     ("bf16", 16, 16, 16, B200), ("fp32", 32, 32, 16, B200), ("i8", 16, 32, 32, B200)],
)  # fmt: skip
def test_operands_of_few_rows_and_columns_are_converted(
    kernel_file: Callable[..., str], element: str, m: int, n: int, k: int, machine: Machine
) -> None:
    out = "i32" if element == "i8" else "fp32"
    sig = (f"a=*{element}:16", f"b=*{element}:16", f"c=*{out}:16")
    kernel = extract(f"{kernel_file(KERNEL)}::k", sig=sig, const=(f"M={m}", f"N={n}", f"K={k}")).on(machine)
    schedule = solve(kernel.graph, machine, SolveOptions(strategy="heuristic"))
    checked(emit_scheduled(kernel, machine, schedule))


CHAINED = """
@triton.jit
def k(a, b, c, n, M: tl.constexpr, K: tl.constexpr):
    p, rm, rk = tl.program_id(0), tl.arange(0, M), tl.arange(0, K)
    acc = tl.zeros((M, M), tl.float32)
    for i in range(0, n, K):
        x = tl.load(a + (p * M + rm[:, None]) * n + i + rk[None, :])
        y = tl.load(b + (i + rk[:, None]) * M + rm[None, :])
        acc += tl.dot(x, y)
    acc = tl.where(rm[:, None] >= rm[None, :], acc, 0.0)
    at = p * M * M + rm[:, None] * M + rm[None, :]
    tl.store(c + at, tl.dot(tl.trans(acc).to(a.dtype.element_ty), acc.to(a.dtype.element_ty)))
"""


def test_on_the_b200_products_of_few_rows_and_columns_repeat_their_rows(kernel_file: Callable[..., str]) -> None:
    """In a loop that sums them up, and of a computed tile that is transposed."""
    sig = ("a=*bf16:16", "b=*bf16:16", "c=*fp32:16", "n=i32:16")
    kernel = extract(f"{kernel_file(CHAINED)}::k", sig=sig, const=("M=16", "K=32")).on(B200)
    shapes = {(node.mma.m, node.mma.n) for region in kernel.graph.regions for node in region.nodes if node.mma}
    assert shapes == {(64, 16)}
    schedule = solve(kernel.graph, B200, SolveOptions(strategy="heuristic"))
    checked(emit_scheduled(kernel, B200, schedule))


@pytest.mark.parametrize(("columns", "refused"), [(256, False), (512, True)])
def test_products_of_few_rows_have_the_columns_of_one_instruction(
    kernel_file: Callable[..., str], columns: int, refused: bool
) -> None:
    source = """
@triton.jit
def k(a, b, c, R: tl.constexpr, C: tl.constexpr):
    i, j, l = tl.arange(0, R), tl.arange(0, C), tl.arange(0, 32)
    state = tl.load(c + i[:, None] * C + j[None, :])
    for step in range(4):
        x = tl.load(a + step * R * 32 + i[:, None] * 32 + l[None, :])
        state = tl.dot(x, state.to(tl.bfloat16), out_dtype=tl.float32)
        tl.store(b + step * R * C + i[:, None] * C + j[None, :], state)
"""
    sig = ("a=*bf16:16", "b=*fp32:16", "c=*fp32:16")
    graph = extract(kernel_file(source), sig=sig, const=("R=32", f"C={columns}")).graph
    if not refused:
        target_of(H100).refuse(graph)
        return
    with pytest.raises(UnsupportedInKernel, match=r"32 x 512 x 32 .* 16s below \(of at most 256 columns\)"):
        target_of(H100).refuse(graph)


LATENT = """
@triton.jit
def k(q, key, value, o, n, scale, H: tl.constexpr, B: tl.constexpr, D: tl.constexpr):
    h, e, d = tl.arange(0, H), tl.arange(0, 64), tl.arange(0, D)
    tile = tl.load(q + h[:, None] * 64 + e[None, :])
    acc = tl.zeros([H, D], tl.float32)
    m = tl.zeros([H], tl.float32) - float("inf")
    l = tl.zeros([H], tl.float32)
    for i in range(0, n, B):
        c = i + tl.arange(0, B)
        s = tl.dot(tile, tl.load(key + c[None, :] * 64 + e[:, None], mask=c[None, :] < n, other=0.0)) * scale
        s = tl.where(c[None, :] < n, s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p, a = tl.exp(s - new[:, None]), tl.exp(m - new)
        v = tl.load(value + c[:, None] * D + d[None, :], mask=c[:, None] < n, other=0.0)
        acc = acc * a[:, None] + tl.dot(p.to(v.dtype), v)
        l, m = l * a + tl.sum(p, 1), new
    tl.store(o + h[:, None] * D + d[None, :], acc / l[:, None])
"""


def test_a_product_of_few_rows_and_many_columns_is_transposed(kernel_file: Callable[..., str]) -> None:
    """The sums of latent attention: 16 heads have 512 columns, and padded rows would have no room in registers."""
    sig = ("q=*bf16:16", "key=*bf16:16", "value=*bf16:16", "o=*fp32:16", "n=i32", "scale=fp32")
    kernel = extract(f"{kernel_file(LATENT)}::k", sig=sig, const=("H=16", "B=16", "D=512"))
    shapes = {(node.mma.m, node.mma.n) for region in kernel.graph.regions for node in region.nodes if node.mma}
    assert shapes == {(16, 16), (512, 16)}
    options = SolveOptions(strategy="none", fuse=False)
    emission = emit_solved(kernel, H100, lambda graph, on: solve(graph, on, options))
    assert not checked(emission).said()
