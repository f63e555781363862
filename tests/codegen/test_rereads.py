"""Kernels that read a row twice say how many bytes that is, and what one machine keeps of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.lower import candidates
from twill.codegen.manifest import scalar_of
from twill.codegen.rereads import again, at_most
from twill.codegen.warp.expression import Apply, Number, ProgramId, Symbol
from twill.manifest.document import Rereads
from twill.manifest.evaluate import evaluate
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

SIG = ["x=*bf16:16", "y=*bf16:16", "n=i32:16"]
HEAD = """
@triton.jit
def k(x, y, n, BLOCK: tl.constexpr):
    x += tl.program_id(0) * n
    y += tl.program_id(0) * n
    m = 0.0
"""
FIRST = """
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        m += tl.sum(tl.load(x + at, mask=at < n, other=0.0).to(tl.float32), axis=0)
"""
LAST = """
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=1.0).to(tl.float32)
        tl.store(y + at, (v - m).to(tl.bfloat16), mask=at < n)
"""


@pytest.mark.parametrize(
    ("loops", "rows"),
    [
        (FIRST + LAST, 1),
        (FIRST + FIRST.replace("+= tl.sum", "= m * tl.sum") + LAST, 1),  # three times, and it lies there once
        (LAST, 0),
        (FIRST + LAST.replace("x + at", "x + at + 1"), 0),
        (FIRST + LAST.replace("in range(0", "in range(BLOCK"), 0),
        (FIRST + LAST.replace("n, BLOCK):", "n, 2 * BLOCK):"), 0),
        ((FIRST + LAST).replace("in range(0", "in range(BLOCK"), 1),
    ],
    ids=["twice", "three times", "once", "other elements", "another first one", "other steps", "behind the first tile"],
)
def test_rows_of_several_loops_are_found(kernel_file: Callable[..., str], loops: str, rows: int) -> None:
    program = extract(f"{kernel_file(HEAD + loops)}::k", sig=SIG, const=["BLOCK=1024"]).program
    assert [size for _, size in again(program)] == [2048] * rows


def test_a_manifest_says_how_much_is_read_again(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU of 132 SMs with half of 50 MB for rows has room for three of 64,000 bytes an SM."""
    made = candidates.candidates
    monkeypatch.setattr("twill.codegen.emit.candidates", lambda *given: tuple(c for c in made(*given) if c.direct))
    kernel = extract(f"{kernel_file(HEAD + FIRST + LAST)}::k", sig=SIG, const=["BLOCK=4096"])
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    found = emission.manifest.rereads
    assert found is not None and emission.manifest.threads == 128
    assert evaluate(found.size, {"n": 32000}) == 65536 and evaluate(found.size, {"n": 4096}) == 8192
    assert [found.ctas(size) for size in (8192, 32768, 65536, 131072)] == [24, 6, 3, 0]


def test_rows_that_some_instances_leave_out_are_as_long_as_the_others() -> None:
    n, own = Symbol(0, "n", "i32"), Apply("compare", (ProgramId(0), Number(3)), "i1", (("predicate", "eq"),))
    trip = Apply("div", (Apply("select", (own, n, Number(0)), "i32"), Number(8)), "i32", (("signed", 1),))
    assert evaluate(scalar_of(at_most(trip), ""), {"n": 80}) == 10


def test_rows_of_which_too_few_are_kept_limit_nothing() -> None:
    assert [Rereads("n", 1000, 2).ctas(size) for size in (0, 100, 400, 500, 501, 5000)] == [0, 10, 2, 2, 0, 0]
