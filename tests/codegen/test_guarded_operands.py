"""An operand of products that is loaded under a condition on data, with a mask besides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract_machine import verify
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

DECODE = """
@triton.jit
def k(q, keys, lengths, o, heads, ROWS: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    i, j, d = tl.arange(0, ROWS), tl.arange(0, N), tl.arange(0, D)
    length = tl.load(lengths + tl.program_id(0))
    acc = tl.zeros((ROWS, N), tl.float32)
    if length > 0:
        x = tl.load(q + i[:, None] * D + d[None, :], mask=(i[:, None] < heads) & (d[None, :] < 100), other=0.0)
        for s in range(0, length, N):
            y = tl.load(keys + (s + j[None, :]) * D + d[:, None], mask=s + j[None, :] < length, other=0.0)
            acc = tl.dot(x, y, acc)
    tl.store(o + (tl.program_id(0) * ROWS + i[:, None]) * N + j[None, :], acc)
"""


@pytest.mark.parametrize("rows", [16, 32, 64])
def test_the_warp_group_that_loads_an_operand_makes_its_mask_itself(kernel_file: Callable[..., str], rows: int) -> None:
    """The condition is part of the mask, a tile that another group has in registers."""
    sig = ("q=*bf16:16", "keys=*bf16:16", "lengths=*i32:16", "o=*fp32:16", "heads=i32")
    known = extract(kernel_file(DECODE), sig=sig, const=(f"ROWS={rows}", "N=64", "D=128"))
    made = emit_scheduled(known, H100, solve(known.graph, H100, SolveOptions(strategy="heuristic")))
    loading = [group for group in made.program.groups if "consumer" not in group.role]
    assert loading
    assert not verify(made.program)
