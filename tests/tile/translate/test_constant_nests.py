"""Loops over constants around a loop with a product are one loop that computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from twill.codegen.emission import extract
from twill.tile.interpret.sequential import run
from twill.tile.program import Loop, TileProgram
from twill.tile.translate.constant_nests import FEW

NEST = """
@triton.jit
def k(a, b, y, C, rows, B: tl.constexpr, R: tl.constexpr, S: tl.constexpr, WAY: tl.constexpr):
    i, j, l = tl.arange(0, B), tl.arange(0, B), tl.arange(0, B)
    if tl.program_id(0) >= rows:
        return
    acc = tl.zeros([B, B], tl.float32)
    for r in range(2, R):
        if WAY == "between":
            acc += 1.0
        for s in range(1, S, 2):
            place = i + r * 5 - s
            if WAY == "halved":
                acc *= 0.5
            for c in range(0, s if WAY == "differs" else C, B):
                left = tl.load(a + place[:, None] * C + (c + l)[None, :], mask=(place >= 12)[:, None], other=0.0)
                acc = tl.dot(left, tl.load(b + (r * 9 + s) * C * B + (c + l)[:, None] * B + j[None, :]), acc)
    tl.store(y + tl.program_id(0) * B * B + i[:, None] * B + j[None, :], acc)
"""
B, C = 16, 48
SIG = ("a=*fp16:16", "b=*fp16:16", "y=*fp32:16", "C=i32:16", "rows=i32")


def extracted(file: str, rows: int, columns: int, way: str = "") -> TileProgram:
    const = (f"B={B}", f"R={rows}", f"S={columns}", f"WAY={way}")
    return extract(f"{file}::k", sig=SIG, const=const).program


def loops(program: TileProgram) -> int:
    return sum(isinstance(item, Loop) for item in program.body)


@pytest.mark.parametrize(
    ("rows", "columns", "way"), [(5, 6, ""), (5, 6, "halved"), (3, 2, ""), (16, 16, ""), (2, 6, "")]
)
def test_they_compute_what_the_nest_says_where_it_is_reached(
    rows: int, columns: int, way: str, kernel_file: Callable[..., str]
) -> None:
    program = extracted(kernel_file(NEST), rows, columns, way)
    assert loops(program) <= 1
    random = np.random.default_rng(3)
    a = random.integers(-3, 4, (100, C)).astype(np.float16)
    b = random.integers(-3, 4, (16 * 9 + 16, C, B)).astype(np.float16)
    y = np.full((2, B, B), 7, np.float32)
    run(program, (2,), {"a": a.reshape(-1), "b": b.reshape(-1), "y": (flat := y.reshape(-1))}, {"C": C, "rows": 1})
    wanted = np.zeros((B, B), np.float32)
    for r in range(2, rows):
        for s in range(1, columns, 2):
            place = np.arange(B) + r * 5 - s
            left = np.where((place >= 12)[:, None], a[place], 0).astype(np.float32)
            wanted = wanted * (0.5 if way == "halved" else 1) + left @ b[r * 9 + s].astype(np.float32)
    assert np.array_equal(flat.reshape(y.shape)[0], wanted)
    assert np.all(flat.reshape(y.shape)[1] == 7)


HEADS = """
@triton.jit
def k(a, b, y, T, G: tl.constexpr, B: tl.constexpr):
    i, j, first = tl.arange(0, B), tl.arange(0, B), tl.program_id(0).to(tl.int64) * B
    acc = tl.zeros([B, B], tl.float32)
    for g in range(G):
        for t in range(first, T, B):
            rows = ((t + i) * G + g)[:, None] * B
            left = tl.load(a + rows + j[None, :], mask=(t + i < T)[:, None], other=0.0)
            right = tl.load(b + rows + j[None, :], mask=(t + i < T)[:, None], other=0.0)
            acc = tl.dot(left, right, acc)
    tl.store(y + (first + i)[:, None] * B + j[None, :], acc)
"""


@pytest.mark.parametrize("heads", [FEW, FEW + 1, 16])
def test_a_loop_over_many_heads_around_one_that_counts_in_64_bits_is_one_loop(
    heads: int, kernel_file: Callable[..., str]
) -> None:
    """Written out it would be as many pipelines, each with code of its own."""
    sig = ("a=*fp16:16", "b=*fp16:16", "y=*fp32:16", "T=i32")
    program = extract(f"{kernel_file(HEADS)}::k", sig=sig, const=(f"G={heads}", f"B={B}")).program
    assert loops(program) == (heads if heads <= FEW else 1)
    random = np.random.default_rng(4)
    a, b = (random.integers(-3, 4, (3 * B, heads, B)).astype(np.float16) for _ in range(2))
    y = np.zeros((3, B, B), np.float32)
    run(program, (3,), {"a": a.reshape(-1), "b": b.reshape(-1), "y": y.reshape(-1)}, {"T": 2 * B + 5})
    a[2 * B + 5 :] = b[2 * B + 5 :] = 0
    for instance in range(3):
        wanted = np.zeros((B, B), np.float32)
        for head in range(heads):
            for t in range(instance * B, 2 * B + 5, B):
                wanted += a[t : t + B, head].astype(np.float32) @ b[t : t + B, head].astype(np.float32)
        assert np.array_equal(y[instance], wanted)


@pytest.mark.parametrize("way", ["between", "differs"])
def test_what_computes_between_the_loops_or_differs_from_row_to_row_is_written_out(
    way: str, kernel_file: Callable[..., str]
) -> None:
    assert loops(extracted(kernel_file(NEST), 4, 4, way)) == 4
