"""Promises of `twill.codegen.passes.load_order`, and of `group_order` where the TMA stores: what a kernel loads is what
was there before it stores, and what it has stored, whichever warp group does both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill import exc
from twill.codegen.emission import Extracted, emit_scheduled, extract
from twill.codegen.passes import group_order, load_order
from twill.codegen.warp.program import BulkCommit, BulkWait, Get, Pipeline, Publish, TmaStore
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

USED_LATER = """
@triton.jit
def k(w, x, n, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B
    at = r[:, None] * B + c[None, :]
    a = tl.load(x + at)
    t = tl.zeros([B, B], tl.float32)
    for i in range(n):
        b = tl.load(w + at + i * B * B)
        t += tl.dot(b, b)
        tl.store(x + at, t.to(tl.bfloat16))
    d = tl.dot(a, t.to(tl.bfloat16))
    tl.store(x + B * B + at, d.to(tl.bfloat16))
"""
BETWEEN = """
@triton.jit
def k(w, x, n, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B
    at = r[:, None] * B + c[None, :]
    a = tl.load(x + at)
    t = tl.zeros([B, B], tl.float32)
    for i in range(n):
        b = tl.load(x + at + i * B * B)
        t += tl.dot(b, b)
    tl.store(x + at, a * 2)
    for i in range(n):
        b = tl.load(x + at + i * B * B)
        t += tl.dot(b, b)
    tl.store(x + B * B + at, t.to(tl.bfloat16))
"""
SIG = ("w=*bf16:16", "x=*bf16:16", "n=i32")


def extracted(kernel_file: Callable[..., str], source: str) -> Extracted:
    return extract(f"{kernel_file(source)}::k", sig=SIG, const=("B=64",))


def test_a_group_waits_for_a_tile_that_is_used_later_before_it_stores_over_it(kernel_file: Callable[..., str]) -> None:
    kernel = extracted(kernel_file, USED_LATER)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False)))
    assert not checked(emission).said()
    group = next(group for group in emission.program.groups if any(isinstance(stmt, TmaStore) for stmt in group.stmts))
    (loop,) = (number for number, stmt in enumerate(group.body) if isinstance(stmt, Pipeline))
    waits = {stmt.cursor for stmt in group.body[:loop] if isinstance(stmt, Get)}
    assert waits & {stmt.cursor for stmt in group.body[loop:] if isinstance(stmt, Get)}


def test_fail_a_group_that_stores_over_a_tile_that_is_not_there_yet(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_order, "loaded_first", lambda program: iter(()))
    kernel = extracted(kernel_file, USED_LATER)
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    with pytest.raises(exc.WarpProgramBroken, match=r"\[order\]"):
        emit_scheduled(kernel, H100, schedule)


def test_a_copy_between_loops_is_waited_for_behind_its_commit(kernel_file: Callable[..., str]) -> None:
    kernel = extracted(kernel_file, BETWEEN)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="none", fuse=False)))
    assert not checked(emission).said()
    group = next(group for group in emission.program.groups if any(isinstance(stmt, TmaStore) for stmt in group.body))
    kinds = [type(stmt) for stmt in group.body]
    store = kinds.index(TmaStore)
    commit = store + kinds[store:].index(BulkCommit)
    assert commit < commit + kinds[commit:].index(BulkWait) < store + kinds[store:].index(Publish)


def test_fail_a_copy_that_is_waited_for_before_its_commit(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_order, "_commit", lambda body, place: place)
    kernel = extracted(kernel_file, BETWEEN)
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="none", fuse=False))
    with pytest.raises(exc.WarpProgramBroken, match=r"\[(order|values)\]"):
        emit_scheduled(kernel, H100, schedule)
