"""Promises of products of f32 in tensor memory that are made of several of bf16."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.warp.program import TensorMultiply
from twill.machine.file import load_machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

GEMM = """
@triton.jit
def k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, P: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        d = i + tl.arange(0, BK)
        left = tl.load(a + m[:, None] * K + d[None, :], mask=m[:, None] < M, other=0.0)
        right = tl.load(b + d[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        acc = tl.dot(left, right, acc, input_precision=P)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))
"""
SIG = ("a=*fp32:16", "b=*fp32:16", "c=*fp32:16", "M=i32", "N=i32:16", "K=i32:16")


@pytest.mark.parametrize(
    ("precision", "products", "rows"), [("tf32", 3, 128), ("bf16x3", 3, 128), ("tf32x3", 6, 128), ("ieee", 8, 64)]
)
def test_what_threads_look_at_before_the_last_product_they_add_to_it(
    precision: str, products: int, rows: int, kernel_file: Callable[..., str]
) -> None:
    """B is not read along K, so no product of tf32 takes it as it is; infinite operands are told by the sum of the
    smaller products, which lies in tensor memory until threads have read it."""
    machine = load_machine("b200")
    sizes = (f"BM={rows}", "BN=64", "BK=32", f"P={precision}")
    kernel = extract(f"{kernel_file(GEMM)}::k", sig=SIG, const=sizes).on(machine)
    schedule = solve(kernel.graph, machine, SolveOptions(strategy="heuristic", fuse=False))
    made = emit_scheduled(kernel, machine, schedule)
    made_products = [stmt for group in made.program.groups for stmt in group.stmts if isinstance(stmt, TensorMultiply)]
    assert {stmt.operand for stmt in made_products} == {"bf16"}
    assert len({(stmt.a, stmt.b) for stmt in made_products}) == products
    checked(made)
