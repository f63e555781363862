"""Atomic operations that Triton spells through pointers to integers, and those of unsigned numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.generated.kernels import held
from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import launch
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
