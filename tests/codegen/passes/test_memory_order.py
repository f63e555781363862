"""Promises of `twill.codegen.passes.memory_order`: what one thread stores, another one stores or loads afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import Extracted, emit_scheduled, extract
from twill.codegen.passes.memory_order import meeting_pairs
from twill.codegen.warp.program import LoadGlobal, Reduce, StoreGlobal, Sync, WarpProgram
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

HEAD = """
@triton.jit
def k(x, y, at, n, BLOCK: tl.constexpr):
    x += tl.program_id(0) * BLOCK
    y += tl.program_id(0) * BLOCK
    offs = tl.arange(0, BLOCK)
    one = tl.load(at + tl.program_id(0))
"""
ELEMENT = """
    v = tl.load(x + offs)
    tl.store(x + offs, v * 2)
    tl.store(x + one, 5.0)
"""
BEFORE = """
    first = tl.load(x + one)
    v = tl.load(x + offs)
    tl.store(x + offs, v * 2 + first)
"""
APART = """
    v = tl.load(x + offs)
    tl.store(x + offs, v * 2)
    tl.store(y + one, 5.0)
"""
HALVED = """
    v = tl.load(x + offs)
    tl.store(x + offs, v * 2)
    even, odd = tl.split(tl.reshape(v, (BLOCK // 2, 2)))
    tl.store(y + tl.arange(0, BLOCK // 2), even + odd)
    tl.store(x + one, 5.0)
"""
SUMMED = """
    first = tl.load(x + one)
    v = tl.load(x + offs)
    tl.store(x + offs, v * 2 + tl.sum(v + first, axis=0))
"""


def kernel_of(kernel_file: Callable[..., str], body: str) -> Extracted:
    sig = ["x=*fp32:16", "y=*fp32:16", "at=*i32:16", "n=i32"]
    return extract(f"{kernel_file(HEAD + body)}::k", sig=sig, const=["BLOCK=512"])


def order(program: WarpProgram) -> str:
    """Loads, stores and waits of the one warp group, in order; a reduction across warps waits."""
    (group,) = program.groups
    letters = {LoadGlobal: "l", StoreGlobal: "s", Sync: "|", Reduce: "|"}
    return "".join(letters.get(type(stmt), "") for stmt in group.stmts)


@pytest.mark.parametrize(("body", "wanted"), [
    (ELEMENT, "ls|s"), (BEFORE, "ll|s"), (APART, "lss"),
    (HALVED, "lss|s"),  # halves are put apart within each thread, where nobody waits
    (SUMMED, "ll||s"),  # the reduction, and its wait for the program instance before
])  # fmt: skip
def test_threads_wait_between_accesses_that_may_have_one_element(
    kernel_file: Callable[..., str], body: str, wanted: str
) -> None:
    kernel = kernel_of(kernel_file, body)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    assert order(emission.program) == wanted
    checked(emission)


def test_pairs_are_those_that_may_meet_and_say_whether_they_are_one_tile(kernel_file: Callable[..., str]) -> None:
    pairs = meeting_pairs(kernel_of(kernel_file, ELEMENT).program)
    assert {argument for argument, *_ in pairs} == {"x"}
    load, store, element = sorted({line for _, *lines in pairs for line in lines})
    assert pairs == {("x", load, store): True, ("x", load, element): False, ("x", store, element): False}
    assert not meeting_pairs(kernel_of(kernel_file, "    tl.store(y + offs, tl.load(x + offs))\n").program)
