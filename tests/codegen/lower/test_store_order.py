"""Promises of `twill.codegen.lower.store_order`: what a loop has stored, it finds when it loads it, in whichever warp
group, iteration and row."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kernels import H100
from twill import exc
from twill.codegen.emission import Extracted, emit_scheduled, emit_solved, extract
from twill.codegen.lower.store_order import StoreOrders, _needed
from twill.codegen.lower.task import Task
from twill.codegen.lowering import lower
from twill.codegen.warp.program import Acquire, BulkWait, Get, Pipeline, ProxyFence, Publish, StoreGlobal, TmaLoad, walk
from twill.schedule.document import Strategy
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

BEHIND = """
@triton.jit
def k(w, x, n, s, B: tl.constexpr, BEHIND: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B
    b = tl.load(w + r[:, None] * B + c[None, :])
    for i in range(n):
        a = tl.load(x + (i * B + r)[:, None] * B + c[None, :])
        tl.store(x + ((i + BEHIND) * B + r)[:, None] * B + c[None, :], tl.dot(a, b).to(tl.bfloat16))
"""
NEST = """
@triton.jit
def k(w, x, n, s, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B
    for i in range(n):
        for j in range(s):
            a = tl.load(x + (i * B + r)[:, None] * B + c[None, :])
            b = tl.load(w + (j * B + r)[:, None] * B + c[None, :])
            tl.store(x + ((i + 1) * B + r)[:, None] * B + c[None, :], tl.dot(a, b).to(tl.bfloat16))
"""
TOGETHER = """
@triton.jit
def k(w, x, n, s, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B
    b = tl.load(w + r[:, None] * B + c[None, :])
    t = tl.zeros([B, B], tl.float32)
    for i in range(n):
        tl.store(x + (i * B + r)[:, None] * B + c[None, :], t.to(tl.bfloat16))
        a = tl.load(x + (i * B + c)[None, :] * B + r[:, None])
        t = tl.dot(b, a) * 0.25 + i
    tl.store(x + (n * B + r)[:, None] * B + c[None, :], t.to(tl.bfloat16))
"""
PLAIN = """
@triton.jit
def k(w, x, n, s, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * B * B * s
    b = tl.load(w + r[:, None] * B + c[None, :])
    for i in range(n):
        a = tl.load(x + ((i * B + r)[:, None] * B + c[None, :]) * s)
        tl.store(x + (((i + 1) * B + r)[:, None] * B + c[None, :]) * s, tl.dot(a, b).to(tl.bfloat16))
"""
SIG = ("w=*bf16:16", "x=*bf16:16", "n=i32", "s=i32")
KERNELS = {
    "the next iteration": (BEHIND, "BEHIND=1"),
    "the third iteration behind": (BEHIND, "BEHIND=3"),
    "the next row of a nest": (NEST, ""),
    "the same iteration": (TOGETHER, ""),
    "the next iteration, by threads": (PLAIN, ""),
}


def extracted(kernel_file: Callable[..., str], name: str) -> Extracted:
    source, const = KERNELS[name]
    return extract(f"{kernel_file(source)}::k", sig=SIG, const=("B=64", *([const] if const else [])))


@pytest.mark.parametrize("strategy", ["heuristic", "none"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_loop_loads_what_another_group_has_stored_in_it(
    name: str, strategy: Strategy, kernel_file: Callable[..., str]
) -> None:
    kernel = extracted(kernel_file, name)
    options = SolveOptions(strategy=strategy, fuse=False)
    emission = emit_solved(kernel, H100, lambda graph, on: solve(graph, on, options))
    assert not checked(emission).said()
    assert any(aref.name.startswith("order x") for aref in emission.program.arefs)


@pytest.mark.parametrize("name", [name for name in KERNELS if "threads" not in name])
def test_fail_a_loop_whose_groups_do_not_wait(
    name: str, kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schedule alone, in whose cycles the load comes behind the store, makes nobody wait. (Groups take turns on the
    abstract machine, which has no clocks of global memory: it sees no load of threads that may come too early.)"""
    monkeypatch.setattr(StoreOrders, "wait", lambda self, access: [])
    monkeypatch.setattr(StoreOrders, "stored", lambda self, store: [])
    monkeypatch.setattr(StoreOrders, "begin", lambda self, region: [])
    monkeypatch.setattr(StoreOrders, "end", lambda self, region: [])
    kernel = extracted(kernel_file, name)
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="none", fuse=False))
    with pytest.raises(exc.WarpProgramBroken, match=r"\[(order|values)\]"):
        emit_scheduled(kernel, H100, schedule)


def test_what_is_stored_is_complete_and_fenced_before_the_other_group_is_told(kernel_file: Callable[..., str]) -> None:
    kernel = extracted(kernel_file, "the next iteration")
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    program = emit_scheduled(kernel, H100, schedule).program
    (ring,) = (aref for aref in program.arefs if aref.name.startswith("order x"))
    stores, loads = (program.groups[n] for n in (ring.producer, ring.consumers[0]))
    put = next(cursor.id for cursor in stores.cursors if cursor.aref == ring.id)
    get = next(cursor.id for cursor in loads.cursors if cursor.aref == ring.id)
    (pipeline,) = (stmt for stmt in stores.body if isinstance(stmt, Pipeline))
    steady = [stmt for stmt in walk(pipeline.steady) if not isinstance(stmt, StoreGlobal)]
    told = steady.index(Publish(put))
    kinds = [type(stmt) for stmt in steady[told - 3 : told]]
    assert kinds == [BulkWait, ProxyFence, Acquire]
    (pipeline,) = (stmt for stmt in loads.body if isinstance(stmt, Pipeline))
    steady = list(walk(pipeline.steady))
    assert steady.index(Get(get)) < next(n for n, stmt in enumerate(steady) if isinstance(stmt, TmaLoad))


TWO = """
@triton.jit
def k(w, x, n, s, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    x += tl.program_id(0).to(tl.int64) * (n + 3) * 2 * B * B
    b = tl.load(w + r[:, None] * B + c[None, :])
    for i in range(n):
        a = tl.load(x + (i * B + r)[:, None] * (2 * B) + c[None, :])
        d = tl.load(x + (i * B + r)[:, None] * (2 * B) + (B + c)[None, :])
        to = x + ((i + 1) * B + r)[:, None] * (2 * B) + c[None, :]
        tl.store(to, tl.dot(a, b).to(tl.bfloat16))
        tl.store(to + B, tl.dot(d, b).to(tl.bfloat16))
"""


def test_two_stores_of_a_loop_are_each_waited_for(kernel_file: Callable[..., str]) -> None:
    """The second one lies 64 rows and 64 columns behind the first load, in one constant of its address."""
    kernel = extract(f"{kernel_file(TWO)}::k", sig=SIG, const=("B=64",))
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="none", fuse=False, blocks=1))
    emission = emit_scheduled(kernel, H100, schedule)
    assert len([aref for aref in emission.program.arefs if aref.name.startswith("order x")]) == 2
    assert not checked(emission).said()


def test_of_waits_of_two_groups_only_those_are_made_that_no_other_implies() -> None:
    """Whoever waits for a store waits for those before it, and has waited in front of all that comes behind."""
    plan = cast(Any, SimpleNamespace(interval=lambda region: 100))

    def task(start: int, group: int) -> Task:
        return Task((0, start, -1), cast(Any, None), (), (group,), start)

    first, second, other = task(40, 0), task(60, 0), task(50, 2)
    a, b = task(5, 1), task(10, 1)
    every = [(first, a, 1), (first, b, 1), (second, a, 1), (second, b, 1)]
    assert _needed(plan, every) == [(second, a, 1)]
    assert _needed(plan, [(first, a, 1), (second, b, 1)]) == [(first, a, 1), (second, b, 1)]
    assert _needed(plan, [(first, a, 1), (second, a, 2)]) == [(first, a, 1)]
    assert _needed(plan, [(first, a, 1), (other, a, 1), (first, a, 1)]) == [(first, a, 1), (other, a, 1)]


def test_rings_are_deepened_only_into_what_the_barriers_of_waits_leave(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = extracted(kernel_file, "the next iteration")
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="none", fuse=False, blocks=1))

    def slots() -> int:
        return next(aref.depth for aref in lower(kernel.wired, schedule, H100).arefs if aref.name == "a")

    assert slots() > 1
    monkeypatch.setattr("twill.codegen.lower.place.BARRIER_BYTES", 100_000)
    assert slots() == 1
