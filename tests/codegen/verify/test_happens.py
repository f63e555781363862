"""Promises of `tests.happens`, which decides whether a fault that no value shows matters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.happens import order
from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import trials
from twill.codegen.warp.program import StoreShared, Sync, WarpProgram

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def sums(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    tile = tl.load(x + o[:, None] * B + o[None, :])
    tl.store(y + o[:, None] * B + o[None, :], tile * tl.sum(tile, axis=0)[:, None])
"""


def test_threads_that_have_the_same_element_may_store_it_in_any_order_and_no_other_ones(tmp_path: Path) -> None:
    """A vector of 16 elements that 128 threads have becomes one along the other axis through shared memory."""
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    tile = extract(f"{tmp_path / 'k.py'}::sums", sig=("x=*fp32:16", "y=*fp32:16"), const=("B=16",)).program
    right = lower(tile, scheduled(tile), H100)
    (trial, *_) = trials(right)
    assert order(right, trial)[1]
    (group,) = right.groups
    stored = next(number for number, stmt in enumerate(group.body) if isinstance(stmt, StoreShared))
    after = next(n for n, stmt in enumerate(group.body) if n > stored and isinstance(stmt, Sync))
    without = (*group.body[:after], *group.body[after + 1 :])
    wrong: WarpProgram = replace(right, groups=(replace(group, body=without),))
    assert not order(wrong, trial)[1]
