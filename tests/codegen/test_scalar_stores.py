"""Loops over scalars that store where data says: one thread runs them, in the order of their iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.generated.kernels import held
from tests.kernels import B200, H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.verify.abstract.inputs import launch, launches
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.machine.description import Machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.vocabulary import ELECTED
from twill.trial.execute import verified

KERNELS = {
    "ranks": """
@triton.jit
def k(ids, counts, y, n, T: tl.constexpr, E: tl.constexpr):
    pid = tl.program_id(0)
    for i in range(pid * T, tl.minimum((pid + 1) * T, n)):
        expert = tl.load(ids + i)
        rank = tl.load(counts + pid * E + expert)
        tl.store(y + expert * 64 + pid * T + rank, i)
        tl.store(counts + pid * E + expert, rank + 1)
    o = tl.arange(0, E)
    tl.store(y + 512 + pid * E + o, tl.load(counts + pid * E + o))
""",
    "until one differs": """
@triton.jit
def k(ids, counts, y, n, T: tl.constexpr, E: tl.constexpr):
    pid = tl.program_id(0)
    before = 0 if pid == 0 else tl.load(counts + pid - 1)
    rejected = False
    for i in range(0, tl.minimum(n, T)):
        if not rejected:
            a = tl.load(ids + pid * T + i)
            tl.store(y + pid * T + i, a + before)
            if a >= 6:
                rejected = True
    if not rejected:
        tl.store(y + 512 + pid, 7)
""",
    "of rows, in two loops": """
@triton.jit
def k(ids, counts, y, n, T: tl.constexpr, E: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * 64
    for i in range(0, tl.minimum(n, 4)):
        for j in range(0, tl.load(ids + pid * T + i)):
            tl.store(y + at, i * 10 + j)
            at = at + j % 2
""",
}
CASE = Case({}, (3,), {"ids": (48,), "counts": (24,), "y": (768,)}, {"n": 40})
SIGNATURE = ("ids=*i32:16", "counts=*i32:16", "y=*i32:16", "n=i32")
CONST = ["T=16", "E=8"]


def numbers(name: str) -> dict[str, Any]:
    """Experts from 0 to 7; counters begin at 0 where they count."""
    ids = np.random.default_rng(0).integers(0, 8, 48).astype(np.int32)
    return {"ids": ids, "counts": np.zeros(24, np.int32) if name == "ranks" else ids[:24].copy()}


@pytest.mark.parametrize("name", KERNELS)
def test_they_store_what_tritons_interpreter_does(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(KERNELS[name])}::k", sig=SIGNATURE, const=CONST)
    for n in (0, 3, 40):
        made = held(spec, replace(CASE, scalars={"n": n}), given=numbers(name))
        assert all(one.furthest == 0 for one in made)


@pytest.mark.parametrize("machine", [H100, B200], ids=["h100", "b200"])
@pytest.mark.parametrize("name", KERNELS)
def test_machine_code_stores_what_the_tile_program_does(
    kernel_file: Callable[..., str], name: str, machine: Machine
) -> None:
    kernel = extract(f"{kernel_file(KERNELS[name])}::k", sig=SIGNATURE, const=CONST)
    assert any(op.kind == ELECTED for op in kernel.program.ops())
    made = emit_scheduled(kernel, machine, solve(kernel.graph, machine, SolveOptions(strategy="heuristic")))
    given = launch(kernel.program, CASE)
    given = replace(given, arrays={**given.arrays, **numbers(name)})
    found = verified(made.build.ptx, made.manifest, made.program, given, ctas=3)
    assert not found.said() and not np.array_equal(found.arrays["y"], given.arrays["y"])


COUNTED = """
@triton.jit
def k(ids, counts, y, n, T: tl.constexpr, E: tl.constexpr):
    for i in range(0, n):
        e = tl.load(ids + i)
        tl.store(counts + e, tl.load(counts + e) + 1)
"""
GUARDED = """
@triton.jit
def k(ids, counts, y, n, T: tl.constexpr, E: tl.constexpr):
    pid, o = tl.program_id(0), tl.arange(0, T)
    before = 0
    if pid > 0:
        before = tl.load(counts + pid - 1)
    tl.store(y + pid * T + o, tl.load(ids + pid * T + o, mask=o < n, other=0) + before)
"""


def test_where_only_numbers_depend_on_what_is_stored_a_loop_stays(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(COUNTED)}::k", sig=SIGNATURE, const=CONST)
    assert not any(op.kind == ELECTED for op in kernel.program.ops())


def test_launches_are_made_up_where_a_condition_keeps_the_first_program_from_what_lies_before_a_tensor(
    kernel_file: Callable[..., str],
) -> None:
    kernel = extract(f"{kernel_file(GUARDED)}::k", sig=SIGNATURE, const=CONST)
    made = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    assert launches(made.program)
