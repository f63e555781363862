"""Views that move elements between threads are emitted, and the machine code computes what the kernel does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.lowering import lower
from twill.codegen.print.gluon.sayable import reasons
from twill.codegen.warp.program import Rearrange
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

HEAD = """
@triton.jit
def k(x, g, y, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    at = i[:, None] * C + j[None, :]
    v = tl.load(x + at)
"""
KERNELS = {
    "neighbours split and interleaved": ("""
    a, b = tl.split(tl.reshape(v, (R, C // 2, 2)))
    tl.store(y + at, tl.interleave(a - b, a * b))
""", (32, 64)),
    "halves exchanged": ("""
    a, b = tl.split(tl.permute(tl.reshape(v, (R, 2, C // 2)), (0, 2, 1)))
    tl.store(y + at, tl.reshape(tl.permute(tl.join(-b, a), (0, 2, 1)), (R, C)))
""", (16, 64)),
    "groups of columns scaled": ("""
    v = tl.reshape(v, (R, 4, C // 4))
    tl.store(y + at, tl.reshape(v - tl.max(v, 2)[:, :, None], (R, C)))
""", (16, 256)),
    "a reduction between two axes": ("""
    v = tl.sum(tl.reshape(v, (R, 4, C // 4)), 1)
    tl.store(y + i[:, None] * (C // 4) + tl.arange(0, C // 4)[None, :], v)
""", (8, 64)),
    "flipped columns of a few rows": ("""
    tl.store(y + at, tl.flip(v))
""", (2, 16)),
    "butterflies of neighbours, then of pairs of them": ("""
    v = tl.reshape(v, (R * C // 2, 2, 1))
    a, b = tl.split(tl.permute(v, (0, 2, 1)))
    v = tl.reshape(tl.permute(tl.join(a + b, a - b), (0, 2, 1)), (R * C // 4, 2, 2))
    a, b = tl.split(tl.permute(v, (0, 2, 1)))
    tl.store(y + at, tl.reshape(tl.permute(tl.join(a + b, a - b), (0, 2, 1)), (R, C)))
""", (2, 256)),
    "sorted rows": ("""
    tl.store(y + at, tl.sort(v, 1))
""", (4, 16)),
    "halves of 16 bits, all columns in one row": ("""
    v = tl.reshape(v.to(tl.bfloat16), (C, R))
    tl.store(y + at, tl.reshape(v + 1, (R, C)).to(tl.float32))
""", (16, 8)),
    "an operand of a product unpacked": ("""
    acc = tl.zeros([R, C], tl.float32)
    h = tl.arange(0, 32)
    for t in range(n):
        a = tl.load(x + t * R * 64 + i[:, None] * 64 + tl.arange(0, 64)[None, :]).to(tl.float16)
        p = tl.load(x + t * C * 32 + j[:, None] * 32 + h[None, :])
        b = tl.reshape(tl.join(p.to(tl.float16), (p * 2).to(tl.float16)), (C, 64))
        acc = tl.dot(a, tl.trans(b), acc)
    tl.store(y + at, acc)
""", (64, 64)),
    "a product made of halves": ("""
    acc = tl.zeros([R, C], tl.float32)
    for t in range(n):
        a = tl.load(x + t * R * C + at).to(tl.float16)
        acc = tl.dot(a, a, acc)
    a, b = tl.split(tl.permute(tl.reshape(acc, (2, R // 2, C)), (1, 2, 0)))
    tl.store(y + at, tl.reshape(tl.permute(tl.join(b, a), (2, 0, 1)), (R, C)) + acc)
""", (64, 64)),
    "the halves of a product's columns, stored one after the other": ("""
    acc = tl.zeros([R, C], tl.float32)
    for t in range(n):
        a = tl.load(x + t * R * C + at).to(tl.float16)
        acc = tl.dot(a, a, acc)
    a, b = tl.split(tl.permute(tl.reshape(acc, (R, 2, C // 2)), (0, 2, 1)))
    half = i[:, None] * C + tl.arange(0, C // 2)[None, :]
    tl.store(y + half, a)
    tl.store(y + half + C // 2, b * 2)
""", (64, 64)),
    "the halves of a product's columns exchanged": ("""
    acc = tl.zeros([R, C], tl.float32)
    for t in range(n):
        a = tl.load(x + t * R * C + at).to(tl.float16)
        acc = tl.dot(a, a, acc)
    a, b = tl.split(tl.permute(tl.reshape(acc, (R, 2, C // 2)), (0, 2, 1)))
    tl.store(y + at, tl.reshape(tl.permute(tl.join(b, a), (0, 2, 1)), (R, C)))
""", (64, 64)),
    "a product whose rows are taken apart": ("""
    acc = tl.zeros([R, C], tl.float32)
    for t in range(n):
        a = tl.load(x + t * R * C + at).to(tl.float16)
        acc = tl.dot(a, a, acc)
    a, b = tl.split(tl.reshape(acc, (R, C // 2, 2)))
    tl.store(y + i[:, None] * (C // 2) + tl.arange(0, C // 2)[None, :], a * b)
""", (64, 64)),
}  # fmt: skip
SIG = ["x=*fp32:16", "g=*fp32:16", "y=*fp32:16", "n=i32"]


@pytest.mark.parametrize("name", KERNELS)
def test_elements_that_other_threads_hold_are_moved(kernel_file: Callable[..., str], name: str) -> None:
    body, (rows, columns) = KERNELS[name]
    kernel = extract(f"{kernel_file(HEAD + body)}::k", sig=SIG, const=[f"R={rows}", f"C={columns}"])
    checked(emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))))


def test_gluon_has_none_of_them(kernel_file: Callable[..., str]) -> None:
    body, (rows, columns) = KERNELS["a product made of halves"]
    kernel = extract(f"{kernel_file(HEAD + body)}::k", sig=SIG, const=[f"R={rows}", f"C={columns}"])
    program = lower(kernel.wired, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")), H100)
    (line,) = {line for line, what, _ in reasons(program, 16) if "move between threads" in what}
    assert "tl.join" in Path(kernel.program.file).read_text().splitlines()[line - 1]


@pytest.mark.parametrize("name", [name for name in KERNELS if name.startswith("the halves of a product's columns")])
def test_columns_of_a_product_stay_in_the_registers_that_have_them(kernel_file: Callable[..., str], name: str) -> None:
    body, (rows, columns) = KERNELS[name]
    kernel = extract(f"{kernel_file(HEAD + body)}::k", sig=SIG, const=[f"R={rows}", f"C={columns}"])
    program = lower(kernel.wired, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")), H100)
    moved = [stmt for group in program.groups for stmt in group.stmts if isinstance(stmt, Rearrange)]
    assert moved
    assert all(stmt.scratch is None for stmt in moved)
