"""Promises of products outside of loops where one thread issues products: they are loops of one iteration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from twill.cli import main
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.warp.program import Pipeline, TensorMultiply
from twill.machine.file import load_machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.program import Loop
from twill.tile.rewrite.straight_products import put_products_in_loops
from twill.trial.execute import checked

LOW_RANK = """
@triton.jit
def k(x, w, a, b, y, M, N, K, scale, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, R: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    d, r = tl.arange(0, BK), tl.arange(0, R)
    acc, low = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, R), tl.float32)
    for i in range(0, K, BK):
        xt = tl.load(x + m[:, None] * K + (i + d)[None, :], mask=m[:, None] < M, other=0.0)
        wt = tl.load(w + (i + d)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        at = tl.load(a + (i + d)[:, None] * R + r[None, :])
        acc, low = tl.dot(xt, wt, acc), tl.dot(xt, at, low)
    bt = tl.load(b + r[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
    ADD
    tl.store(y + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m[:, None] < M) & (n[None, :] < N))
"""
ADDED = {
    "scaled": "acc += tl.dot(low.to(tl.bfloat16), bt) * scale",
    "to what a loop has summed": "acc = tl.dot(low.to(tl.bfloat16), bt, acc)",
}
CHUNK = """
@triton.jit
def k(g, x, y, T, D: tl.constexpr, BT: tl.constexpr):
    t, d, h = tl.program_id(0) * BT + tl.arange(0, BT), tl.arange(0, D), tl.program_id(1)
    s = tl.cumsum(tl.load(g + h * T + t, mask=t < T, other=0.0), 0)
    xv = tl.load(x + (h * T + t)[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
    lower = tl.arange(0, BT)[:, None] >= tl.arange(0, BT)[None, :]
    w = tl.dot(xv, tl.trans(xv)) * tl.where(lower, tl.exp(s[:, None] - s[None, :]), 0.0)
    out = tl.dot(w.to(xv.dtype), xv)
    tl.store(y + (h * T + t)[:, None] * D + d[None, :], out.to(tl.bfloat16), mask=t[:, None] < T)
"""
CHUNK_TYPES = ("g=*fp32:16", "x=*bf16:16", "y=*bf16:16", "T=i32")
SCALED = """
@triton.jit
def k(x, w, y, N, scale, BM: tl.constexpr, D: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    left = (tl.load(x + m[:, None] * D + d[None, :]) * scale).to(tl.bfloat16)
    acc = tl.zeros((BM, D), tl.float32)
    for i in range(N):
        acc = tl.dot(left, tl.load(w + (i * D + d)[:, None] * D + d[None, :]), acc)
    tl.store(y + m[:, None] * D + d[None, :], acc.to(tl.bfloat16))
"""


def emitted(path: str, sig: str, const: str, machine: str = "b200") -> Emission:
    """With the schedule of the quick strategy."""
    on = load_machine(machine)
    kernel = extract(f"{path}::k", sig=sig.split(), const=const.split()).on(on)
    return emit_scheduled(kernel, on, solve(kernel.graph, on, SolveOptions(strategy="heuristic", fuse=False)))


@pytest.mark.parametrize("added", ADDED)
def test_a_product_of_a_loops_result_and_a_tile_is_multiplied_behind_the_loop(
    added: str, kernel_file: Callable[..., str]
) -> None:
    """A correction of low rank: what one loop has summed is rounded and multiplied again."""
    types = " ".join(f"{name}=*bf16:16" for name in "xwaby")
    sig = f"{types} M=i32 N=i32:16 K=i32:16 scale=fp32"
    made = emitted(kernel_file(LOW_RANK.replace("ADD", ADDED[added])), sig, "BM=128 BN=64 BK=64 R=16")
    (issuer,) = (g for g in made.program.groups if any(isinstance(s, TensorMultiply) for s in g.stmts))
    assert sum(isinstance(stmt, Pipeline) for stmt in issuer.body) == 2
    checked(made)


def test_products_of_a_chunk_are_multiplied_without_a_loop_around_them(kernel_file: Callable[..., str]) -> None:
    """Decayed scores within a chunk of a sequence: the second product's left operand is what threads make of the
    first one's result."""
    checked(emitted(kernel_file(CHUNK), " ".join(CHUNK_TYPES), "D=64 BT=64"))


def test_a_tile_that_is_computed_in_front_of_a_loop_for_its_products_alone_is_made_by_threads(
    kernel_file: Callable[..., str],
) -> None:
    """Queries are scaled once; nobody but the thread that issues products reads what comes of it."""
    made = emitted(kernel_file(SCALED), "x=*bf16:16 w=*bf16:16 y=*bf16:16 N=i32 scale=fp32", "BM=128 D=64")
    assert not any(group.fragments for group in made.program.groups if group.issuer)
    checked(made)


def test_what_the_command_line_solves_for_a_machine_is_what_it_emits(
    kernel_file: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = kernel_file(CHUNK), tmp_path / "out"
    words = [f"{path}::k", "--machine", "b200", "--no-store"]
    words += [word for one in CHUNK_TYPES for word in ("--sig", one)] + ["--const", "D=64", "--const", "BT=64"]
    assert main(["solve", *words, "--strategy", "heuristic", "--out", str(out)]) == 0
    assert "not emitted" not in capsys.readouterr().err
    assert main(["emit", *words, "--schedule", str(out / "schedule.json"), "--ir"]) == 0


def test_targets_that_multiply_into_registers_keep_such_products_as_they_are(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(CHUNK)}::k", sig=CHUNK_TYPES, const=["D=64", "BT=64"])
    assert kernel.on(load_machine("h100")) is kernel
    inside = kernel.on(load_machine("b200")).program
    assert sum(isinstance(item, Loop) for item in inside.body) == 2
    assert put_products_in_loops(inside) is inside and inside.original is not None
