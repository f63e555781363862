"""Promises of `twill.tile.rewrite.computed_operands`: products of computed right operands are transposed, and the
program computes what it did."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from twill.codegen.emission import extract
from twill.tile.interpret.arrays import np
from twill.tile.interpret.sequential import run

KERNEL = """
@triton.jit
def k(a, w, v, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for i in range(n):
        left = tl.load(a + i * B * B + o[:, None] * B + o[None, :])
        right = tl.load(w + i * B * B + o[:, None] * B + o[None, :])
        acc = tl.dot(left, (right * 0.5).to(tl.bfloat16), acc)
    acc *= 2.0
    for j in range(n):
        acc += tl.load(v + j * B + o)[None, :] * (j + 1)
    tl.store(y + o[:, None] * B + o[None, :], acc)
"""
SIG = ["a=*bf16:16", "w=*bf16:16", "v=*fp32:16", "y=*fp32:16", "n=i32"]


def test_a_second_loop_goes_on_with_the_transposed_sum(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(KERNEL)}::k", sig=SIG, const=["B=64"])
    written = kernel.program.original
    assert written is not None and kernel.behind["computed-operands"] is not kernel.behind["mma-precision"]
    found = []
    for program in (written, kernel.program):
        rng = np.random.default_rng(0)
        arrays = {name: rng.integers(-4, 5, size).astype(np.float32) for name, size in
                  (("a", 8192), ("w", 8192), ("v", 128), ("y", 4096))}  # fmt: skip
        run(program, (1,), arrays, {"n": 2})
        found.append(arrays["y"])
    assert np.array_equal(found[0], found[1]) and found[0].any()


GEMM = ("examples/gemm.py", "bf16")


def descriptors(rows: int, columns: int) -> tuple[list[str], list[str]]:
    """Types and constants of the GEMM by descriptors, in tiles of so many rows and columns and 64 of K."""
    blocks = {"a_desc": (rows, 64), "b_desc": (64, columns), "c_desc": (rows, columns)}
    types = [f"{name}=tensordesc<bf16[{a}, {b}]>" for name, (a, b) in blocks.items()]
    return types, [f"BLOCK_M={rows}", f"BLOCK_N={columns}", "BLOCK_K=64"]


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(
    ("rows", "columns", "across"),
    [(8, 64, True), (16, 128, True), (136, 64, True), (64, 64, False), (128, 96, False), (16, 80, False)],
)
def test_loaded_tiles_are_multiplied_transposed_where_only_their_columns_are_rows_of_the_tensor_core(
    rows: int, columns: int, across: bool
) -> None:
    types, constants = descriptors(rows, columns)
    kernel = extract(*GEMM, types, constants)
    assert (kernel.behind["computed-operands"] is not kernel.behind["mma-precision"]) is across
    shape = (columns, rows) if across else (rows, columns)
    assert {(node.mma.m, node.mma.n) for region in kernel.graph.regions for node in region.nodes if node.mma} == {shape}
    written = kernel.as_written()
    assert (written is not None) is across and (written or kernel).graph.regions
