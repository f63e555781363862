"""Loops over constants around a loop with a product are one loop that computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from twill.codegen.emission import extract
from twill.tile.interpret.sequential import run
from twill.tile.program import Loop, TileProgram

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


@pytest.mark.parametrize("way", ["between", "differs"])
def test_what_computes_between_the_loops_or_differs_from_row_to_row_is_written_out(
    way: str, kernel_file: Callable[..., str]
) -> None:
    assert loops(extracted(kernel_file(NEST), 4, 4, way)) == 4
