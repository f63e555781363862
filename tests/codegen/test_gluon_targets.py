"""Modules of Gluon for Blackwell are of the program as the target takes it: products outside of loops in loops of their
own, and what threads have added by threads. Compiled, read back and executed on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import GOLDEN
from twill.cli import main
from twill.codegen.emission import extract
from twill.codegen.gluon import emit_gluon
from twill.machine.file import load_machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

LOW_RANK = """
@triton.jit
def low_rank(x, w, a, b, y, K, scale, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, R: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc, low = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, R), tl.float32)
    for i in range(0, K, BK):
        xt = x.load([m, i])
        acc, low = tl.dot(xt, w.load([i, n]), acc), tl.dot(xt, a.load([i, 0]), low)
    acc += tl.dot(low.to(tl.bfloat16), b.load([0, n])) * scale
    y.store([m, n], acc.to(tl.bfloat16))
"""
CHUNK = """
@triton.jit
def chunk(x, y, T, D: tl.constexpr, BT: tl.constexpr):
    first = tl.program_id(1) * T + tl.program_id(0) * BT
    tile = x.load([first, 0])
    lower = tl.arange(0, BT)[:, None] >= tl.arange(0, BT)[None, :]
    weights = tl.where(lower, tl.dot(tile, tl.trans(tile)), 0.0)
    out = tl.dot(weights.to(tl.bfloat16), tile)
    y.store([first, 0], out.to(tl.bfloat16))
"""
PARTS = """
@triton.jit
def gemm_in_parts(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        acc = tl.dot(a.load([m, i]), b.load([i, n]), acc, input_precision="bf16x3")
    c.store([m, n], acc)
"""
KERNELS = {
    "low_rank": (
        LOW_RANK,
        "x=tensordesc<bf16[128,64]> w=tensordesc<bf16[64,64]> a=tensordesc<bf16[64,16]> b=tensordesc<bf16[16,64]> "
        "y=tensordesc<bf16[128,64]> K=i32 scale=fp32",
        "BM=128 BN=64 BK=64 R=16",
    ),
    "chunk": (CHUNK, "x=tensordesc<bf16[64,64]> y=tensordesc<bf16[64,64]> T=i32:16", "D=64 BT=64"),
    "gemm_in_parts": (
        PARTS,
        "a=tensordesc<fp32[128,32]> b=tensordesc<fp32[32,64]> c=tensordesc<fp32[128,64]> K=i32",
        "BM=128 BN=64 BK=32",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_program_that_the_target_rewrites_is_emitted_as_the_target_takes_it(
    name: str, kernel_file: Callable[..., str], request: pytest.FixtureRequest
) -> None:
    source, types, constants = KERNELS[name]
    machine, as_written = load_machine("b200"), Allowed(conditional=False)
    kernel = extract(f"{kernel_file(source)}::{name}", None, types.split(), constants.split(), as_written)
    assert kernel.on(machine) is not kernel
    made = emit_gluon(
        kernel, machine, lambda graph, on: solve(graph, on, SolveOptions(strategy="heuristic", fuse=False))
    )
    assert "equal to the tile program, nothing found" in checked(made, kernel.specialization)
    golden = GOLDEN / f"gluon_b200_{name}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(made.module.text, encoding="utf-8")
    assert made.module.text == golden.read_text(encoding="utf-8")


def test_a_tile_that_is_multiplied_by_its_own_transpose_is_told_apart_from_it(kernel_file: Callable[..., str]) -> None:
    """On Hopper, too, where products outside of loops stay there."""
    _, types, constants = KERNELS["chunk"]
    kernel = extract(f"{kernel_file(CHUNK)}::chunk", None, types.split(), constants.split())
    made = emit_gluon(
        kernel, load_machine("h100"), lambda graph, on: solve(graph, on, SolveOptions(strategy="heuristic", fuse=False))
    )
    assert "warpgroup_mma(tile, tile_transposed, " in made.module.text
    assert "equal to the tile program, nothing found" in checked(made, kernel.specialization)


def test_so_it_is_on_the_command_line(
    kernel_file: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, types, constants = KERNELS["chunk"]
    words = ["emit", f"{kernel_file(source)}::chunk", "--machine", "b200", "--as", "gluon", "--no-store"]
    words += [word for one in types.split() for word in ("--sig", one)]
    words += [word for one in constants.split() for word in ("--const", one)]
    assert main([*words, "--strategy", "heuristic", "--out", str(tmp_path / "out")]) == 0
    assert "chunk (flags) for b200, I = 192, as Gluon" in capsys.readouterr().out
