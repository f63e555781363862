"""Promises of `twill.codegen.verify.abstract.along_axes`: what is made of any axis of the grid is checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import launches
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Number
from twill.codegen.warp.program import SetProgramId, WarpProgram

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def flat(x, y, n, m, B: tl.constexpr, GRID: tl.constexpr):
    r, c = tl.program_id(1) * B + tl.arange(0, B), tl.program_id(2) * B + tl.arange(0, B)
    if GRID:
        r += tl.program_id(0) * 0
    inside = (r[:, None] < n) & (c[None, :] < m)
    at = r[:, None] * m + c[None, :]
    tl.store(y + at, tl.load(x + at, mask=inside, other=0.0), mask=inside)

@triton.jit
def rows(x, y, n, m, B: tl.constexpr, GRID: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n, other=0.0), mask=o < n)
"""


def program(folder: Path, name: str) -> WarpProgram:
    (folder / "k.py").write_text(KERNEL, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "n=i32", "m=i32")
    tile = extract(f"{folder / 'k.py'}::{name}", sig=sig, const=("B=16", "GRID=False")).program
    return lower(tile, scheduled(tile), H100)


@pytest.mark.parametrize("axis", [1, 2])
def test_an_index_of_the_wrong_axis_is_found_without_a_table_of_sizes(tmp_path: Path, axis: int) -> None:
    right = program(tmp_path, "flat")
    assert not verify(right)
    assert {(1, 2), (1, 1, 2)} < {one.grid for one in launches(right)}

    def wrong(stmt: Any) -> Any:
        return replace(stmt, value=Number(0, "u32")) if isinstance(stmt, SetProgramId) and stmt.axis == axis else stmt

    groups = tuple(replace(group, next=tuple(map(wrong, group.next))) for group in right.groups)
    assert verify(replace(right, groups=groups))


def test_a_kernel_with_programs_along_one_axis_has_no_launch_more(tmp_path: Path) -> None:
    assert {one.grid for one in launches(program(tmp_path, "rows"))} == {(3,)}
