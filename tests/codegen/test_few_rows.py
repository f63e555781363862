"""Tiles of fewer rows than a swizzle's pattern has: threads find their elements where the TMA leaves them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract, with_slow_builds
from twill.codegen.emit import Emission
from twill.codegen.lower import candidates
from twill.codegen.warp.program import TmaLoad
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

KERNEL = """
@triton.jit
def k(x, y, z, scale, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, C)
    at = i[:, None] * C + j[None, :]
    most = tl.zeros((R, C), tl.float32)
    for step in range(0, n):
        tile = tl.load(x + (step * 64 + i)[:, None] * C + j[None, :]).to(tl.float32)
        most = tl.maximum(most, tile * scale)
        tl.store(z + step * 64 + i, tl.sum(tile, 1))
    tl.store(y + at, most)
"""


def through_rings(monkeypatch: pytest.MonkeyPatch, kernel: str, element: str, rows: int, columns: int) -> Emission:
    """The kernel with tiles that the TMA copies, not by threads."""
    made = candidates.candidates
    monkeypatch.setattr(
        "twill.codegen.emit.candidates", lambda *given: tuple(one for one in made(*given) if not one.direct)
    )
    sig = (f"x=*{element}:16", "y=*fp32:16", "z=*fp32:16", "scale=fp32", "n=i32")
    extracted = extract(kernel, sig=sig, const=(f"R={rows}", f"C={columns}"))
    schedule = solve(extracted.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    return emit_scheduled(extracted, H100, schedule)


@pytest.mark.parametrize("rows", [2, 4])
@pytest.mark.parametrize(("element", "columns"), [("bf16", 128), ("fp32", 128), ("fp32", 64)])
def test_panels_of_few_rows_are_where_the_tma_leaves_them(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch, rows: int, element: str, columns: int
) -> None:
    emission = through_rings(monkeypatch, f"{kernel_file(KERNEL)}::k", element, rows, columns)
    (tile,) = (buffer for buffer in emission.program.buffers if len(buffer.shape) == 2)
    assert tile.shape == (rows, columns) and tile.swizzle == 128
    assert any(isinstance(stmt, TmaLoad) for group in emission.program.groups for stmt in group.stmts)
    checked(emission)


SMALL = """
@triton.jit
def k(x, w, y, n, R: tl.constexpr, B: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, B)
    acc = tl.zeros([R, B], tl.float32)
    for i in range(n):
        a = tl.load(x + r[:, None] * (n * B) + (i * B + c)[None, :])
        b = tl.load(w + (i * B + c)[:, None] * B + c[None, :])
        acc += tl.dot(tl.exp(a), b, input_precision="ieee")
    tl.store(y + r[:, None] * B + c[None, :], acc)
"""


@pytest.mark.parametrize("rows", [16, 32])
def test_products_of_fewer_rows_than_a_warp_group_has_do_not_spill(kernel_file: Callable[..., str], rows: int) -> None:
    """Of operands that are loaded from shared memory, parts of products of f32, each warp writes its registers: those
    of warps without rows would be alive from iteration to iteration."""
    sig = ("x=*fp32:16", "w=*fp32:16", "y=*fp32:16", "n=i32:16")
    kernel = extract(f"{kernel_file(SMALL)}::k", sig=sig, const=(f"R={rows}", "B=64"))
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="none", fuse=False, blocks=1))
    emission = with_slow_builds(lambda: emit_scheduled(kernel, H100, schedule))
    assert emission.facts.spill_stores == 0
    assert not checked(emission).said()
