"""Promises of `twill.codegen.verify.abstract.derive`: sizes that are made up are sizes that a kernel is made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.derive import ROW, bounds_met, derived_problem, touches_outside
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launch, launches
from twill.codegen.verify.abstract_machine import alone, independent
from twill.kernel.problem import Case
from twill.tile.program import TileProgram

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def rows(x, y, stride, n, B: tl.constexpr):
    o = tl.program_id(0) * stride + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=tl.arange(0, B) < n), mask=tl.arange(0, B) < n)

@triton.jit
def last(x, y, stride, n, B: tl.constexpr):
    end = tl.minimum(n, B) - 1
    tl.store(y + tl.program_id(0) * stride + tl.arange(0, B), tl.load(x + end + tl.arange(0, B)))

@triton.jit
def same(x, y, stride, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + tl.program_id(0) * stride + o), mask=o < n)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("derive") / "k.py"
    path.write_text(KERNELS, encoding="utf-8")
    return path


def program(file: Path, name: str) -> TileProgram:
    return extract(f"{file}::{name}", sig=("x=*fp32:16", "y=*fp32:16", "stride=i32", "n=i32"), const=("B=64",)).program


def at(tile: TileProgram, n: int) -> CheckedLaunch:
    return launch(tile, derived_problem(tile).case({"n": n}))


def test_what_program_instances_are_apart_by_is_no_size(file: Path) -> None:
    problem = derived_problem(program(file, "rows"))
    assert set(problem.units) == {"n"} and problem.scalars["stride"] == str(ROW)


@pytest.mark.parametrize(("n", "outside"), [(0, True), (1, False)])
def test_sizes_at_which_a_kernel_reads_before_a_tensor_are_told(file: Path, n: int, outside: bool) -> None:
    tile = program(file, "last")
    case = derived_problem(tile).case({"n": n})
    assert touches_outside(tile, case, case.scalars) == outside


def test_instances_that_write_the_same_place_are_told_and_one_of_them_is_left(file: Path) -> None:
    apart, together = (at(program(file, name), 64) for name in ("rows", "same"))
    assert independent(program(file, "rows"), apart)
    assert not independent(program(file, "same"), together)
    assert alone(together).grid == (1,) and independent(program(file, "same"), alone(together))


def test_a_kernel_without_loops_is_checked_in_whole_tiles_ragged_ones_and_none(file: Path) -> None:
    tile = program(file, "rows")
    warp = lower(tile, scheduled(tile), H100)
    met = [bounds_met(tile, Case({}, one.grid, {}, one.scalars), one.scalars) for one in launches(warp)]
    assert {said for one in met for *_, said in one} == {"all", "some", "none"}
