"""Loads whose masks are made of indices that threads compute, and of numbers from memory."""

from __future__ import annotations

from collections.abc import Callable

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

PACK = """
@triton.jit
def k(old, new, begins, o, H: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0)
    first, end = tl.load(begins + row), tl.load(begins + row + 1)
    at = tl.program_id(1) * B + tl.arange(0, B)
    token, channel = at // D, at % D
    prefix = tl.load(old + (first + token) * D + channel, mask=token < H, other=0.0)
    rest = tl.load(new + (first + token - H) * D + channel, mask=(token >= H) & (token < end - first), other=0.0)
    tl.store(o + first * D + at, tl.where(token < H, prefix, rest), mask=token < end - first)
"""


def test_a_mask_is_computed_with_the_indices_that_it_goes_with(kernel_file: Callable[..., str]) -> None:
    """The mask of `rest` is a tile of its own in the tile program; the threads that load make it where they load."""
    sig = ("old=*fp32:16", "new=*fp32:16", "begins=*i32:16", "o=*fp32:16")
    known = extract(kernel_file(PACK), sig=sig, const=("H=4", "D=64", "B=256"))
    checked(emit_scheduled(known, H100, solve(known.graph, H100, SolveOptions(strategy="heuristic"))))


SHARED = """
@triton.jit
def k(x, ids, y, z, n, B: tl.constexpr):
    row = tl.program_id(0)
    valid = tl.load(ids + row) >= 0
    for start in range(0, n, B):
        at = start + tl.arange(0, B)
        mask = (at < n) & valid
        v = tl.load(x + row * n + at, mask=mask, other=0.0) * 2.0
        tl.store(y + row * n + at, v, mask=mask)
        parts = tl.reshape(tl.where(mask, v.to(tl.bfloat16).to(tl.float32), 0.0), (B // 16, 16))
        tl.store(z + (row * n + start) // 16 + tl.arange(0, B // 16), tl.max(parts, axis=1))
"""


def test_a_mask_that_a_store_has_stays_in_every_iteration(kernel_file: Callable[..., str]) -> None:
    """A task makes it for the store; a predicated update has index arithmetic alone."""
    sig = ("x=*fp32:16", "ids=*i32:16", "y=*fp32:16", "z=*fp32:16", "n=i32:16")
    kernel = extract(f"{kernel_file(SHARED)}::k", sig=sig, const=["B=256"])
    assert not any(op.kind == "update" for op in kernel.wired.program.ops())
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False)))
    assert not checked(emission).said()
