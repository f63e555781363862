"""Reductions of matrices without products, along either axis: the machine code computes what the tile program does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.warp.layout import Along, Slice
from twill.codegen.warp.program import Reduce
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

KERNEL = """
@triton.jit
def k(x, rows, columns, y, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    at = tl.program_id(0) * R * C + i[:, None] * C + j[None, :]
    v = tl.load(x + at)
    most, sums = tl.max(v, 1), tl.sum(v, 0)
    tl.store(rows + tl.program_id(0) * R + i, most)
    tl.store(columns + tl.program_id(0) * C + j, sums)
    tl.store(y + at, v - most[:, None] + sums[None, :] + tl.max(most, 0) * tl.sum(sums, 0))
"""
SIG = [*(f"{name}=*fp32:16" for name in ("x", "rows", "columns", "y"))]


@pytest.mark.parametrize(("rows", "columns"), [(8, 16), (16, 32), (64, 4), (128, 8), (16, 512), (2, 512), (4, 1024)])
def test_rows_and_columns_are_reduced(kernel_file: Callable[..., str], rows: int, columns: int) -> None:
    kernel = extract(f"{kernel_file(KERNEL)}::k", sig=SIG, const=[f"R={rows}", f"C={columns}"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))
    emission = emit_scheduled(kernel, H100, schedule)
    reduced = [
        {group.fragment(stmt.operand).layout, group.fragment(stmt.result).layout}
        for group in emission.program.groups
        for stmt in group.stmts
        if isinstance(stmt, Reduce)
    ]
    vectors = Along if (rows, columns) == (128, 8) else Slice  # of what the tensor core could hold, or of rows and runs
    assert any(isinstance(layout, vectors) for layouts in reduced for layout in layouts)
    checked(emission)
