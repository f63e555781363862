"""Promises of products that tensor cores read as tf32: machine code cuts their operands off, and is right for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile.rewrite.test_precision import M, product, tensors, tile
from twill.codegen.emission import extract
from twill.codegen.emit import emit
from twill.codegen.emittable import refuse_unemittable
from twill.codegen.verify.abstract_machine import read_as_tf32
from twill.graph.build import wire
from twill.kernel.specialization import resolve
from twill.tile.interpret.sequential import run
from twill.tile.rewrite.precision import split_mmas
from twill.trial import execute

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def scores(q, k, s, K, stride, B: tl.constexpr, D: tl.constexpr):
    rows, across = tl.arange(0, B), tl.arange(0, D)
    total = tl.zeros((B, B), tl.float32)
    for d in range(0, K, D):
        left = tl.load(q + rows[:, None] * stride + (d + across)[None, :])
        right = tl.load(k + rows[:, None] * stride + (d + across)[None, :])
        total = tl.dot(left, right.T, total)
    tl.store(s + rows[:, None] * B + rows[None, :], total)
"""
SIDECAR = """\
kernel = "scores"

[[specialization]]
name = "tf32"
grid = ["1"]
signature = { q = "*fp32:16", k = "*fp32:16", s = "*fp32:16", K = "i32:16", stride = "i32:16" }
constexprs = { B = 64, D = 32 }

[specialization.problem]
units = { K = 32 }
tensors = { q = ["B", "K"], k = ["B", "K"], s = ["B", "B"] }
scalars = { stride = "K" }
"""


def test_machine_code_of_a_product_along_k_is_what_its_operands_give_as_tf32(tmp_path: Path) -> None:
    (tmp_path / "scores.py").write_text(KERNEL)
    (tmp_path / "scores.twill.toml").write_text(SIDECAR)
    file = str(tmp_path / "scores.py")
    kernel = extract(file)
    refuse_unemittable(kernel.program)
    execute.checked(emit(wire(kernel.program), resolve(file), scheduled(kernel.program), H100))


def test_only_products_that_stay_whole_are_read_as_tf32() -> None:
    whole = product("tf32", turned=True)
    assert read_as_tf32(whole) == {op.line for op in whole.ops() if op.kind == "dot"}
    assert not read_as_tf32(split_mmas(product("tf32"))) and not read_as_tf32(product("ieee"))


def test_an_operand_that_is_cut_off_has_eleven_digits() -> None:
    program = product("tf32")
    data = tensors(program)
    run(program, (1,), data, {}, read_as_tf32(program))
    a, b = (tile(data, name).astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000) for name in "AB")
    exact = tile(data, "C") + a.view(np.float32).astype(float) @ b.view(np.float32).astype(float)
    assert np.allclose(tile(data, "D")[:M], exact, rtol=0, atol=1e-4)
