"""Promises of `twill.tile.access.address` about starts: no tensor map begins in front of its tensor, where memory need
not be, whatever a kernel counts backwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Number
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.access.address import moved_start
from twill.tile.affine import Polynomial
from twill.trial.execute import checked

BACKWARDS = """
@triton.jit
def k(x, w, g, y, n, B: tl.constexpr):
    c = tl.arange(0, B)
    for i in range(tl.cdiv(n, B) - 1, -1, -1):
        o = i * B + c
        a = tl.load(x + o[:, None] * B + c[None, :], mask=o[:, None] < n, other=0.0)
        b = tl.load(w + c[:, None] * B + c[None, :])
        last = tl.load(g + (tl.minimum((i + 1) * B, n) - 1) * B + c)
        t = tl.dot(a, b) * last[None, :]
        tl.store(y + o[:, None] * B + c[None, :], t.to(tl.bfloat16), mask=o[:, None] < n)
"""

HEADS = """
@triton.jit
def k(x, w, g, y, n, B: tl.constexpr):
    h, c = tl.program_id(0), tl.arange(0, B)
    b = tl.load(w + c[:, None] * B + c[None, :])
    acc = tl.zeros([B, B], tl.float32)
    for i in range(n):
        o = (n - i) * B - B + c
        a = tl.load(x + h * B + o[:, None] * (4 * B) + c[None, :], mask=c[None, :] < 4 * B, other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(y + h * B + c[:, None] * (4 * B) + c[None, :], acc.to(tl.bfloat16))
"""


def test_rows_of_one_head_are_counted_down_by_rows_and_not_by_heads(kernel_file: Callable[..., str]) -> None:
    """Both are as many elements from one another, or divide them: what a row is less must not be heads less."""
    sig = ("x=*bf16:16", "w=*bf16:16", "g=*fp32:16", "y=*bf16:16", "n=i32")
    kernel = extract(f"{kernel_file(HEADS)}::k", sig=sig, const=("B=64",))
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False)))
    checked(emission)
    assert all(one.offset == Number(0, one.offset.element) for one in emission.program.maps)


def test_maps_of_a_kernel_that_goes_through_rows_backwards_begin_where_its_tensors_do(
    kernel_file: Callable[..., str],
) -> None:
    sig = ("x=*bf16:16", "w=*bf16:16", "g=*fp32:16", "y=*bf16:16", "n=i32")
    kernel = extract(f"{kernel_file(BACKWARDS)}::k", sig=sig, const=("B=64",))
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False)))
    checked(emission)
    program = emission.program
    assert {one.argument for one in program.maps} >= {"x", "g"}
    assert all(one.offset == Number(0, one.offset.element) for one in program.maps)
    before = replace(program, maps=tuple(replace(one, offset=Number(-64, "i64")) for one in program.maps))
    assert any(violation.rule == "bounds" for violation in verify(before))


@pytest.mark.parametrize(("start", "steps", "left"), [
    ({"r": 64, "": -64}, {"r": -1}, 0),  # (min(end, n) - 1) * 64: a row less
    ({"r": 64, "h": 16, "": -128}, {"r": -2}, 0),  # the terms with the longest steps
    ({"r": 64, "": -65}, {}, -65),  # no number of rows: no tensor map
    ({"r": 64, "n": 64, "": -64}, {}, 0),  # (n - 1) * 64: behind where the tensor begins, of tensors that have rows
])  # fmt: skip
def test_what_lies_in_front_of_a_tensor_is_taken_from_what_varies(
    start: dict[str, int], steps: dict[str, int], left: int
) -> None:
    names = {"r": 0, "h": 1, "n": 2}
    polynomial = Polynomial.of((((names[n], 1),) if n else (), c) for n, c in start.items())
    found, rest = moved_start(polynomial, lambda p: not p.symbols() & {0, 1})
    assert found == {((names[n], 1),): k for n, k in steps.items()}
    assert rest.constant == (left if "n" not in start else -64)
