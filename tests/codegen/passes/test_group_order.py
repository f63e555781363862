"""Promises of `twill.codegen.passes.group_order`, and of `memory_order` where the TMA stores: what a kernel has stored,
it finds when it loads it again, whichever warp group does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.passes.uses import loop_order, phases_of
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Number
from twill.codegen.warp.program import (
    Acquire,
    BulkWait,
    Consumed,
    Get,
    Pipeline,
    ProxyFence,
    Publish,
    Stmt,
    StoreGlobal,
    Sync,
    TmaLoad,
    TmaStore,
    WarpProgram,
)
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

ADDED = """
@triton.jit
def k(x, w, y, n, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    inside = r[:, None] < n
    a = tl.load(x + r[:, None] * B + c[None, :], mask=inside, other=0.0)
    for i in range(2):
        b = tl.load(w + (i * B + c)[:, None] * B + c[None, :])
        tl.store(y + r[:, None] * (2 * B) + (i * B + c)[None, :], tl.dot(a, b).to(tl.bfloat16), mask=inside)
    for i in range(2):
        b = tl.load(w + (i * B + c)[:, None] * B + c[None, :])
        t = tl.load(y + r[:, None] * (2 * B) + (i * B + c)[None, :], mask=inside, other=0.0)
        t = t + tl.dot(a, b)
        tl.store(y + r[:, None] * (2 * B) + (i * B + c)[None, :], t.to(tl.bfloat16), mask=inside)
"""
TWICE = """
@triton.jit
def k(x, w, y, n, B: tl.constexpr, FIRST: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    inside = r[:, None] < n
    a = tl.load(x + r[:, None] * B + c[None, :], mask=inside, other=0.0)
    b = tl.load(w + c[:, None] * B + c[None, :])
    t = tl.dot(a, b).to(tl.bfloat16)
    if FIRST:
        tl.store(y + r * B + 3, tl.sum(t.to(tl.float32), 1).to(tl.bfloat16), mask=r < n)
    tl.store(y + r[:, None] * B + c[None, :], t, mask=inside)
    if not FIRST:
        tl.store(y + r * B + 3, tl.sum(t.to(tl.float32), 1).to(tl.bfloat16), mask=r < n)
"""
SIG = ("x=*bf16:16", "w=*bf16:16", "y=*bf16:16", "n=i32")


def lowered(kernel_file: Callable[..., str], source: str, *const: str, execute: bool = True) -> WarpProgram:
    """The kernel's program, which the abstract machine accepts, executed as PTX beside the tile program."""
    kernel = extract(f"{kernel_file(source)}::k", sig=SIG, const=const)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False)))
    if execute:
        checked(emission)
    return emission.program


def without_rings(program: WarpProgram) -> WarpProgram:
    """The program in which no group waits for another one's stores."""
    rings = {aref.id for aref in program.arefs if aref.name.startswith("order")}
    cursors = {c.id for group in program.groups for c in group.cursors if c.aref in rings}
    return replace(program, groups=tuple(
        replace(group, body=tuple(stmt for stmt in group.body if getattr(stmt, "cursor", None) not in cursors))
        for group in program.groups
    ))  # fmt: skip


def test_the_load_group_waits_for_what_was_stored_before_it_loads_it_again(kernel_file: Callable[..., str]) -> None:
    """A first loop stores a product, a second one adds to it, as gradients of keys do. Loads run far ahead of products:
    without the wait they find what was there before the launch."""
    program = lowered(kernel_file, ADDED, "B=64")
    load = next(group for group in program.groups if any(isinstance(stmt, TmaLoad) for stmt in group.stmts))
    store = next(group for group in program.groups if any(isinstance(s, ProxyFence) and s.memory for s in group.stmts))
    assert load is not store
    assert [type(stmt) for stmt in load.body if isinstance(stmt, Get | Consumed)] == [Get, Consumed]
    assert sum(isinstance(stmt, Acquire | Publish) for stmt in store.body) == 2
    assert {"order"} == {violation.rule for violation in verify(without_rings(program))}


@pytest.mark.parametrize(("first", "wanted"), [(True, "sync fence sync copy"), (False, "copy over sync s")])
def test_a_tile_that_the_tma_stores_and_threads_touch_too_is_stored_in_order(
    first: bool, wanted: str, kernel_file: Callable[..., str]
) -> None:
    """Threads that store behind a copy wait for its end, which its own thread alone knows; a copy behind what they
    store comes behind a proxy fence of each."""
    program = lowered(kernel_file, TWICE, "B=64", f"FIRST={first}")
    (group,) = (group for group in program.groups if any(isinstance(stmt, TmaStore) for stmt in group.body))
    stored = [number for number, stmt in enumerate(group.body) if isinstance(stmt, TmaStore | StoreGlobal)]
    between = (word(stmt) for stmt in group.body[stored[0] : stored[-1] + 1])
    assert " ".join(said for said in between if said).endswith(wanted)


def word(stmt: Stmt) -> str:
    """What matters of a statement between the two stores."""
    match stmt:
        case BulkWait(read=False):
            return "over"
        case ProxyFence(memory=True):
            return "fence"
        case Sync() | StoreGlobal() | TmaStore():
            return {Sync: "sync", StoreGlobal: "s", TmaStore: "copy"}[type(stmt)]
    return ""


def test_a_box_that_begins_between_16_bytes_is_found(kernel_file: Callable[..., str]) -> None:
    program = lowered(kernel_file, TWICE, "B=64", "FIRST=True", execute=False)
    groups = tuple(replace(group, body=tuple(map(moved, group.body))) for group in program.groups)
    assert any(violation.rule == "aligned" for violation in verify(replace(program, groups=groups)))


def moved(stmt: Stmt) -> Stmt:
    """A load, from one element further on."""
    if not isinstance(stmt, TmaLoad):
        return stmt
    return replace(stmt, coordinates=(*stmt.coordinates[:-1], Number(1)))


WRITTEN_OUT = """
@triton.jit
def k(x, w, y, n, s, N: tl.constexpr):
    r, c, o = tl.program_id(0) * 64 + tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, N)
    for h in tl.static_range(2):
        left = tl.zeros((64, N), tl.float32)
        right = tl.zeros((64, N), tl.float32)
        for i in range(n):
            a = tl.load(x + r[:, None] * 64 + c[None, :])
            left = tl.dot(a, tl.load(w + (i * 64 + c)[:, None] * N + o[None, :]), left)
            right = tl.dot(a, tl.load(w + (i * 64 + 64 * n + c)[:, None] * N + o[None, :]), right)
            at = y + h * s + (i * 128 * tl.num_programs(0) + r)[:, None] * N + o[None, :]
            tl.store(at, left.to(tl.bfloat16))
            tl.store(at + 64 * tl.num_programs(0) * N, right.to(tl.bfloat16))
"""


def test_loops_that_a_kernel_writes_out_wait_for_one_another_in_their_order(kernel_file: Callable[..., str]) -> None:
    """Both loops have the same lines. Two groups store in each; where the second one's tiles lie, nobody knows."""
    sig = ["x=*bf16:16", "w=*bf16:16", "y=*bf16:16", "n=i32", "s=i32:16"]
    kernel = extract(f"{kernel_file(WRITTEN_OUT)}::k", sig=sig, const=["N=256"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    emission = emit_scheduled(kernel, H100, schedule)
    rings = {a.name for a in emission.program.arefs if a.name.startswith("order")}
    assert rings == {"order 0 1", "order 1 0"}
    checked(emission)


def test_a_statement_runs_between_the_loops_around_it_of_which_a_group_may_have_only_some(
    kernel_file: Callable[..., str],
) -> None:
    """Loops have odd phases, what stands between two loops has the even one between them."""
    program = lowered(kernel_file, ADDED, "B=64", execute=False)
    order = loop_order(program)
    assert order == {"loop1": 0, "loop2": 1}
    for group in program.groups:
        last = [stmt for stmt in group.body if not (isinstance(stmt, Pipeline) and stmt.name == "loop1")]
        for body, first in ((group.body, (0, 0)), (tuple(last), (0, 2))):
            at = [number for number, stmt in enumerate(body) if isinstance(stmt, Pipeline)]
            spans = phases_of(replace(group, body=body), order)
            assert [spans[number] for number in at] == [(1, 1), (3, 3)][2 - len(at) :]
            assert set(spans[: at[0]]) <= {first} and set(spans[at[-1] + 1 :]) <= {(4, 4)}
            assert set(spans[at[0] + 1 : at[-1]]) <= {(2, 2)}
