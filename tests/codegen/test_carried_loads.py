"""Tiles that a loop loads and carries on to its next iteration: kept in registers, and right in machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.kernels import H100
from twill.codegen.emission import Extracted, emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.lower import candidates
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.program import Loop
from twill.tile.rewrite.carried_loads import copy_carried_loads
from twill.trial.execute import checked

DECAYED = """
@triton.jit
def k(a, b, z, y, n, C: tl.constexpr):
    i, j, l = tl.arange(0, 64), tl.arange(0, C), tl.arange(0, 64)
    before = tl.load(z + j)
    acc = tl.zeros([64, C], tl.float32)
    for t in range(n):
        after = tl.load(z + (t + 1) * C + j)
        left = tl.load(a + t * 64 * 64 + i[:, None] * 64 + l[None, :])
        right = tl.load(b + t * 64 * C + l[:, None] * C + j[None, :])
        acc = tl.dot(left, right, acc * tl.exp(before - after)[None, :])
        before = after
    tl.store(y + i[:, None] * C + j[None, :], acc)
"""
DIFFERENCES = """
@triton.jit
def k(x, y, n, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    at = i[:, None] * C + j[None, :]
    before = tl.load(x + at)
    last = before
    acc = tl.zeros([R, C], tl.float32)
    for step in range(n):
        after = tl.load(x + (step + 1) * R * C + at)
        acc += tl.abs(after.to(tl.float32) - before) + last
        last = before
        before = after
    tl.store(y + at, acc + before)
"""


def extracted(file: str, sig: Sequence[str], const: Sequence[str]) -> Extracted:
    return extract(f"{file}::k", sig=sig, const=const)


def emitted(kernel: Extracted) -> Emission:
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    return emit_scheduled(kernel, H100, schedule)


def test_a_vector_of_the_iteration_before_decays_an_accumulator(kernel_file: Callable[..., str]) -> None:
    sig = ("a=*bf16:16", "b=*bf16:16", "z=*fp32:16", "y=*fp32:16", "n=i32")
    checked(emitted(extracted(kernel_file(DECAYED), sig, ["C=64"])))


@pytest.mark.parametrize("element", ["fp32", "bf16", "i32", "i16"])
def test_tiles_of_the_two_iterations_before_are_read(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch, element: str
) -> None:
    """From rings: in one warp group loads go to registers anyhow."""
    made = candidates.candidates
    monkeypatch.setattr(
        "twill.codegen.emit.candidates", lambda *given: tuple(one for one in made(*given) if not one.direct)
    )
    kernel = extracted(kernel_file(DIFFERENCES), (f"x=*{element}:16", "y=*fp32:16", "n=i32"), ["R=32", "C=64"])
    checked(emitted(kernel))
    (loop,) = (item for item in kernel.behind["carried-loads"].body if isinstance(item, Loop))
    assert [op.kind for op in loop.body if op.name == "after"].count("cast") == 1  # type: ignore[union-attr]


def test_a_program_that_carries_nothing_that_it_loads_stays_itself(kernel_file: Callable[..., str]) -> None:
    text = DIFFERENCES.replace("before = after\n", "before = after + 1\n")
    kernel = extracted(kernel_file(text), ("x=*fp32:16", "y=*fp32:16", "n=i32"), ["R=32", "C=64"])
    program = kernel.behind["extracted"]
    assert copy_carried_loads(program) is program
