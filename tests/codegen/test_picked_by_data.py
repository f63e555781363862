"""Promises of loads whose addresses are computed from data: right by Triton's interpreter, by the abstract machine and
in machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.generated.kernels import held
from tests.kernels import H100
from twill.codegen.emission import emit_solved, extract
from twill.codegen.lower.candidates import candidates
from twill.codegen.verify.abstract.inputs import launch
from twill.exc import UnsupportedInKernel, UnsupportedOperation
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked, verified

HEAD = """
@triton.jit
def k(x, t, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + c, mask=c < n, other=0.0)
"""
ROW = """
@triton.jit
def k(x, t, y, n, B: tl.constexpr):
    c = tl.arange(0, B)
    own = tl.program_id(0) * B + c
    v = tl.load(x + own)
    best = tl.argmax(v, 0)
"""
SEARCH = """
@triton.jit
def k(x, t, y, n, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    low = tl.zeros([B], tl.int32)
    high = tl.zeros([B], tl.int32) + n
    for i in tl.static_range(18):
        middle = (low + high) // 2
        after = tl.load(steps + middle, mask=middle < n, other=1 << 30) <= c
        low = tl.where(after, middle + 1, low)
        high = tl.where(after, high, middle)
""".replace("y, n", "y, steps, n")
KERNELS = {
    "the place of a class": HEAD + """
    m = (v > 0).to(tl.int32) + (v > 1).to(tl.int32) * 2
    tl.store(y + c, tl.load(t + m) * v, mask=c < n)
""",
    "a search in a table": HEAD + """
    low = tl.zeros([B], tl.int32)
    high = tl.zeros([B], tl.int32) + 8
    for i in range(3):
        middle = (low + high) // 2
        above = v >= tl.load(t + middle)
        low = tl.where(above, middle, low)
        high = tl.where(above, high, middle)
    tl.store(y + c, low.to(tl.float32), mask=c < n)
""",
    "a search that is written out": SEARCH + """
    tl.store(y + c, low.to(tl.float32), mask=c < n)
""",
    "under a mask of data": HEAD + """
    m = (v * 3).to(tl.int32)
    tl.store(y + c, tl.load(t + m, mask=(m >= 0) & (m < 20), other=-1.0), mask=c < n)
""",
    "what was stored before": HEAD + """
    own = tl.program_id(0) * B
    s = tl.cumsum((v > 0).to(tl.int32), 0) - 1
    tl.store(y + c, v)
    z = tl.load(y + own + tl.maximum(s, 0))
    tl.debug_barrier()
    tl.store(y + c, z)
""",
    "the row of the largest element": ROW + """
    w = tl.load(t + best * 256 + c, mask=c < n, other=1.0)
    tl.store(y + own, v * w)
""",
    "one element after another": ROW + """
    w = tl.load(t + best).to(tl.int32) & 3
    z = tl.load(t + w * 8 + (best & 7), mask=best < 100, other=2.0)
    tl.store(y + own, v * z)
""",
    "in each iteration": """
@triton.jit
def k(x, t, y, n, B: tl.constexpr):
    c, total = tl.arange(0, B), tl.zeros([B], tl.float32)
    for i in range(3):
        v = tl.load(x + i * B + c)
        total += tl.load(t + (tl.argmax(v, 0) & 3) * 64 + (c & 63))
    tl.store(y + tl.program_id(0) * B + c, total)
""",
    "as many as are positive": ROW + """
    many = tl.sum((v > 0).to(tl.int32), 0)
    w = tl.load(t + c, mask=(c < many) & (c < n), other=3.0)
    tl.store(y + own, w, mask=c < many + 1)
""",
    "from the largest on": ROW + """
    w = tl.load(t + best + c, mask=best + c < n, other=3.0)
    tl.store(y + own + best, w, mask=best + c < B)
""",
    "stores where the largest is": ROW + """
    tl.store(y + own, v)
    tl.debug_barrier()
    tl.store(y + tl.program_id(0) * B + best, 7.0)
    tl.atomic_add(y + tl.program_id(0) * B + (best ^ 1), 1.0, mask=best > 4)
""",
    "rows": """
@triton.jit
def k(x, t, y, n, B: tl.constexpr):
    r, d = tl.program_id(0) * 16 + tl.arange(0, 16), tl.arange(0, 16)
    at = r[:, None] * 16 + d[None, :]
    v = tl.load(x + at, mask=r[:, None] < n, other=0.0)
    w = tl.load(t + tl.argmax(v, 1)[:, None] * 16 + d[None, :])
    tl.store(y + at, w + v, mask=r[:, None] < n)
""",
}  # fmt: skip
SIG = ("x=*fp32:16", "t=*fp32:16", "y=*fp32:16", "n=i32")
STEPS = ("steps=*i32:16",)
CASE = Case({}, (3,), {"x": (768,), "t": (65536,), "y": (768,)}, {"n": 700})


@pytest.mark.parametrize("name", KERNELS)
def test_loads_go_where_data_says(kernel_file: Callable[..., str], name: str) -> None:
    file = f"{kernel_file(KERNELS[name])}::k"
    sig = SIG + STEPS if "steps" in KERNELS[name] else SIG
    if sig == SIG:
        assert all(one.furthest == 0 for one in held(resolve(file, sig=sig, const=["B=256"]), CASE))
    kernel = extract(file, sig=sig, const=["B=256"])
    emission = emit_solved(kernel, H100, lambda graph, on: solve(graph, on, SolveOptions(strategy="heuristic")))
    assert len(emission.program.groups) == 1
    case = CASE if sig == SIG else replace(CASE, shapes={**CASE.shapes, "steps": (768,)})
    made = launch(kernel.program, case)
    assert verified(emission.build.ptx, emission.manifest, emission.program, made).said() == []


def test_fail_a_search_that_is_written_out_beside_a_product(kernel_file: Callable[..., str]) -> None:
    """Each use of a tile that is looked up has a copy of its own, and the next one is looked up through both."""
    body = """
    r = tl.arange(0, 16)
    z = tl.load(x + r[:, None] * 16 + r[None, :]).to(tl.bfloat16)
    tl.store(y + r[:, None] * 16 + r[None, :], tl.dot(z, z))
    tl.store(t + c, tl.load(x + low))
"""
    with pytest.raises(UnsupportedOperation, match="takes more than 40000 operations"):
        extract(f"{kernel_file(SEARCH + body)}::k", sig=SIG + STEPS, const=["B=256"])


def test_fail_such_a_load_beside_a_product(kernel_file: Callable[..., str]) -> None:
    source = KERNELS["rows"].replace("w + v", "tl.dot(w.to(tl.bfloat16), v.to(tl.bfloat16))")
    kernel = kernel_file(source)
    with pytest.raises(UnsupportedInKernel, match="which is computed from data"):
        extract(f"{kernel}::k", sig=SIG, const=["B=256"])


PLACED = """
@triton.jit
def k(x, t, y, n, B: tl.constexpr):
    r, c = tl.arange(0, B), tl.arange(0, B)
    at = r[:, None] * B + c[None, :]
    product = tl.dot(tl.load(x + at), tl.load(t + at))
    best = tl.argmax(tl.max(product, 1), 0)
    many = tl.sum((tl.max(product, 1) > 0).to(tl.int32), 0)
    tl.store(y + (tl.program_id(0) * 2 * B + best) * B + at, product, mask=r[:, None] < many)
"""


def test_rows_of_a_product_are_stored_where_and_as_many_as_it_says(kernel_file: Callable[..., str]) -> None:
    sig = ("x=*bf16:16", "t=*bf16:16", "y=*fp32:16", "n=i32")
    kernel = extract(f"{kernel_file(PLACED)}::k", sig=sig, const=["B=64"])
    emission = emit_solved(kernel, H100, lambda graph, on: solve(graph, on, SolveOptions(strategy="heuristic")))
    assert len(emission.program.groups) > 1
    assert checked(emission).said() == []


COMPACTED = """
@triton.jit
def k(x, t, y, n, B: tl.constexpr):
    row, many = tl.program_id(0), tl.zeros((), tl.int32)
    for i in range(0, n, B):
        c = i + tl.arange(0, B)
        v = tl.load(x + row * n + c, mask=c < n, other=0.0)
        kept = (v > 0).to(tl.int32)
        tl.store(y + row * n + many + tl.cumsum(kept, axis=0) - kept, v, mask=kept != 0)
        many += tl.sum(kept)
    tl.store(t + row, many.to(tl.float32))
"""


def test_what_is_kept_of_a_row_is_stored_side_by_side(kernel_file: Callable[..., str]) -> None:
    """The place goes on from iteration to iteration, by as many as an iteration keeps."""
    file = f"{kernel_file(COMPACTED)}::k"
    case = Case({}, (3,), {"x": (2100,), "t": (3,), "y": (2100,)}, {"n": 700})
    assert all(one.furthest == 0 for one in held(resolve(file, sig=SIG, const=["B=256"]), case))
    kernel = extract(file, sig=SIG, const=["B=256"])
    assert "scalar_loop" not in {op.kind for op in kernel.program.ops()}
    emission = emit_solved(kernel, H100, lambda graph, on: solve(graph, on, SolveOptions(strategy="heuristic")))
    assert verified(emission.build.ptx, emission.manifest, emission.program, launch(kernel.program, case)).said() == []


COUNTED = (
    HEAD
    + """
    old = tl.atomic_add(y + c * 0, v)
    for i in range(3):
        tl.store(y + 1 + i * n + c, old + tl.load(x + i * n + c))
"""
)


@pytest.mark.parametrize("source", [KERNELS["a search in a table"], COUNTED])
def test_one_warp_group_does_everything_where_it_alone_has_the_data(
    source: str, kernel_file: Callable[..., str]
) -> None:
    """However many threads it needs: no way to lower it has a warp group that loads for another one."""
    kernel = extract(f"{kernel_file(source)}::k", sig=SIG, const=["B=256"])
    found = candidates(kernel.program, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")), H100)
    assert found and all(one.direct for one in found)
