"""Promises of `tests.happens`, which decides whether a fault that no value shows matters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.happens import order
from tests.kernels import H100
from tests.lowered import scheduled
from tests.twin import Twin
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import trials
from twill.codegen.warp.program import Multiply, ProxyFence, StoreShared, Sync, WarpProgram

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def sums(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    tile = tl.load(x + o[:, None] * B + o[None, :])
    tl.store(y + o[:, None] * B + o[None, :], tile * tl.sum(tile, axis=0)[:, None])

@triton.jit
def product(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    a, b = tl.load(x + o[:, None] * 512 + o[None, :] * 4), tl.load(x + o[:, None] * 512 + o[None, :] * 4 + 1)
    tl.store(y + o[:, None] * B + o[None, :], tl.dot(a, b))
"""


def program(folder: Path, name: str, element: str, size: int) -> WarpProgram:
    (folder / "k.py").write_text(KERNEL, encoding="utf-8")
    sig = (f"x=*{element}:16", "y=*fp32:16")
    tile = extract(f"{folder / 'k.py'}::{name}", sig=sig, const=(f"B={size}",)).program
    return lower(tile, scheduled(tile), H100)


def test_a_proxy_fence_in_front_of_another_one_is_not_needed_and_the_last_one_is(tmp_path: Path) -> None:
    """Threads store both operands to shared memory, with a fence behind each, and multiply behind both."""
    right = program(tmp_path, "product", "fp16", 64)
    number, group = next((n, g) for n, g in enumerate(right.groups) if any(isinstance(s, Multiply) for s in g.stmts))
    fences = [at for at, stmt in enumerate(group.body) if isinstance(stmt, ProxyFence)]
    multiply = next(at for at, stmt in enumerate(group.body) if isinstance(stmt, Multiply))
    first, second = (at for at in fences if at < multiply)

    def without(at: int) -> WarpProgram:
        body = (*group.body[:at], *group.body[at + 1 :])
        return replace(right, groups=(*right.groups[:number], replace(group, body=body), *right.groups[number + 1 :]))

    twin = Twin(right)
    assert twin.is_ordered_alike(without(first))
    assert not twin.is_ordered_alike(without(second))


def test_threads_that_have_the_same_element_may_store_it_in_any_order_and_no_other_ones(tmp_path: Path) -> None:
    """A vector of 16 elements that 128 threads have becomes one along the other axis through shared memory."""
    right = program(tmp_path, "sums", "fp32", 16)
    (trial, *_) = trials(right)
    assert order(right, trial)[1]
    (group,) = right.groups
    stored = next(number for number, stmt in enumerate(group.body) if isinstance(stmt, StoreShared))
    after = next(n for n, stmt in enumerate(group.body) if n > stored and isinstance(stmt, Sync))
    without = (*group.body[:after], *group.body[after + 1 :])
    wrong: WarpProgram = replace(right, groups=(replace(group, body=without),))
    assert not order(wrong, trial)[1]
