"""Promises of scalar arguments of 1, 8 and 16 bits: a launch passes them as 32 bits, code sees what the kernel does."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.verify.abstract.inputs import launch, launches
from twill.kernel.problem import Case
from twill.machine.file import load_machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial import execute

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def short(x, y, n, flag, small, byte, other, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n)
    v = tl.where(flag, v, -v) + flag.to(tl.float32)
    v += (small < 0).to(tl.float32) + byte.to(tl.float32)
    if flag ^ (other > small):
        v = v * small
    tl.store(y + o, v, mask=(o < n) & (flag | (other < 0)))
"""
TYPES = ("x=*fp32:16", "y=*fp32:16", "n=i32", "flag=i1", "small=i8", "byte=u8", "other=i16")


@cache
def emission(folder: Path, name: str) -> Emission:
    (folder / "k.py").write_text(KERNEL, encoding="utf-8")
    kernel = extract(f"{folder / 'k.py'}::short", sig=TYPES, const=("B=256",))
    machine = load_machine(name)
    return emit_scheduled(kernel, machine, solve(kernel.graph, machine, SolveOptions(strategy="heuristic")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("short")


@pytest.mark.parametrize("name", ["h100", "b200"])
@pytest.mark.parametrize(("flag", "small", "byte", "other"), [(0, -3, 200, 7), (1, 5, 255, -300), (0, 127, 0, -1)])
def test_machine_code_computes_what_the_tile_program_does(
    folder: Path, name: str, flag: int, small: int, byte: int, other: int
) -> None:
    made = emission(folder, name)
    scalars = {"n": 300, "flag": flag, "small": small, "byte": byte, "other": other}
    one = launch(made.program.program, Case({}, (2,), {"x": (512,), "y": (512,)}, scalars))
    found = execute.verified(made.build.ptx, made.manifest, made.program, one)
    assert not found.said()
    stored = found.arrays["y"][:300] != one.arrays["y"][:300]
    assert stored.all() if flag or other < 0 else not stored.any()
    if stored.any():
        x = one.arrays["x"][:300]
        wanted = (x if flag else -x) + np.float32(flag) + np.float32(small < 0) + np.float32(byte)
        wanted = wanted * small if bool(flag) != (other > small) else wanted
        np.testing.assert_allclose(found.arrays["y"][:300], wanted, rtol=1e-6, atol=1e-5)


def test_launches_that_are_made_up_have_both_values_of_a_flag_and_what_types_hold(folder: Path) -> None:
    made = launches(emission(folder, "h100").program)
    assert {one.scalars["flag"] for one in made} == {0, 1}
    assert all(one.scalars["small"] < 128 and one.scalars["other"] < 1 << 15 for one in made)
