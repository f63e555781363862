"""Atomic operations that Triton spells through pointers to integers, and those of unsigned numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.generated.kernels import held
from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import launch
from twill.exc import UnknownProblem
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import verified

HEAD = "@triton.jit\ndef k(x, y, n, B: tl.constexpr):\n    at = tl.program_id(0) * B + tl.arange(0, B)\n"
HEAD += "    v = tl.load(x + at, mask=at < n, other=0)\n"
KERNELS = {
    "the largest": "    tl.atomic_max(y + at % 64, v, mask=at < n)\n",
    "the least": "    tl.atomic_min(y + at % 64, v, mask=at < n)\n",
    "the largest of all": "    tl.atomic_max(y + 3, tl.max(v, 0))\n",
    "under a condition": "    if tl.program_id(0) == 1:\n        tl.atomic_min(y + at % 64, v)\n",
}
CASE = Case({}, (3,), {"x": (768,), "y": (64,)}, {"n": 700})
TYPES = {"fp32": np.float32, "fp64": np.float64, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64}


def signature(element: str) -> list[str]:
    return [f"x=*{element}:16", f"y=*{element}:16", "n=i32"]


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_largest_and_least_numbers_in_memory_are_tritons(
    kernel_file: Callable[..., str], name: str, element: str
) -> None:
    spec = resolve(f"{kernel_file(HEAD + KERNELS[name])}::k", sig=signature(element), const=["B=256"])
    for raw in (True, False):
        assert all(one.furthest == 0 for one in held(spec, CASE, raw=raw))


@pytest.mark.parametrize("element", ["fp32", "u32", "u64"])
def test_the_ptx_leaves_the_largest_numbers_of_their_type(kernel_file: Callable[..., str], element: str) -> None:
    kernel = extract(f"{kernel_file(HEAD + KERNELS['the largest'])}::k", sig=signature(element), const=["B=256"])
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    made = launch(kernel.program, CASE)
    execution = verified(emission.build.ptx, emission.manifest, emission.program, made)
    assert execution.said() == []
    x, y = (made.arrays[name].view(TYPES[element]) for name in "xy")
    wanted = y.copy()
    np.maximum.at(wanted, np.arange(700) % 64, x[:700])
    assert np.array_equal(execution.arrays["y"].view(TYPES[element]), wanted)
    assert (wanted != y).any()


SCATTERS = {
    "a histogram":
        "    at = tl.program_id(0) * B + tl.arange(0, B)\n    v = tl.load(x + at)\n"
        "    tl.atomic_add(y + (v * 3 & 63), 1, mask=(at < n) & (v > 2))\n",
    "rows that go where their sum says":
        "    r, c = tl.program_id(0) * 32 + tl.arange(0, 32), tl.arange(0, 64)\n"
        "    v = tl.load(x + r[:, None] * 64 + c[None, :])\n    to = tl.sum(v, 1) & 15\n"
        "    tl.atomic_add(y + to[:, None] * 64 + c[None, :], v, mask=v > 1)\n",
    "exchanges whose old values nobody reads":
        "    at = tl.program_id(0) * B + tl.arange(0, B)\n    v = tl.load(x + at)\n"
        "    tl.atomic_xchg(y + at, v * 3, mask=(at < n) & (v > 2))\n",
    "columns that go where theirs does":
        "    r, c = tl.program_id(0) * 32 + tl.arange(0, 32), tl.arange(0, 64)\n"
        "    v = tl.load(x + r[:, None] * 64 + c[None, :])\n    to = (tl.max(v, 0) & 1) * 64 + c\n"
        "    tl.store(y + r[:, None] * 128 + to[None, :], v)\n",
}  # fmt: skip
SCATTERED = Case({}, (3,), {"x": (3 * 2048,), "y": (3 * 4096,)}, {"n": 700})


@pytest.mark.parametrize("name", SCATTERS)
def test_stores_go_where_data_says(kernel_file: Callable[..., str], name: str) -> None:
    """By the abstract machine, in machine code, and in Triton's interpreter."""
    file = f"{kernel_file('@triton.jit' + chr(10) + 'def k(x, y, n, B: tl.constexpr):' + chr(10) + SCATTERS[name])}::k"
    assert all(one.furthest == 0 for one in held(resolve(file, sig=signature("i32"), const=["B=256"]), SCATTERED))
    kernel = extract(file, sig=signature("i32"), const=["B=256"])
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    made = launch(kernel.program, SCATTERED)
    assert verified(emission.build.ptx, emission.manifest, emission.program, made).said() == []


def test_a_store_outside_of_any_tensor_by_data_is_refused(kernel_file: Callable[..., str]) -> None:
    body = "    at = tl.arange(0, B)\n    tl.store(y - 1 - tl.load(x + at), n)\n    tl.store(x + at, n)\n"
    file = f"{kernel_file('@triton.jit' + chr(10) + 'def k(x, y, n, B: tl.constexpr):' + chr(10) + body)}::k"
    kernel = extract(file, sig=signature("i32"), const=["B=256"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))
    with pytest.raises(UnknownProblem, match="what `k` accesses depends on data"):
        emit_scheduled(kernel, H100, schedule)
