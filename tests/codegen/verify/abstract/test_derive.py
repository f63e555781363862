"""Promises of `twill.codegen.verify.abstract.derive`: sizes that are made up are sizes that a kernel is made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.derive import (
    NEAR,
    ROW,
    bounds_met,
    derived_problem,
    of_all_tiles,
    shapes,
    touched,
    touches_outside,
    with_near_rows,
)
from twill.codegen.verify.abstract.extent import scouts
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launch, launches, leaves_tensors
from twill.codegen.verify.abstract_machine import alone, independent
from twill.kernel.problem import ProblemTable
from twill.manifest.tile_loop import TileLoop
from twill.tile.interpret.conflicts import conflicts
from twill.tile.program import TileProgram

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def heads(x, y, stride, n, WIDE: tl.constexpr, B: tl.constexpr):
    o = tl.program_id(0) * stride * WIDE + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=tl.arange(0, B) < n), mask=tl.arange(0, B) < n)


@triton.jit
def rows(x, y, stride, n, B: tl.constexpr):
    o = tl.program_id(0) * stride + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=tl.arange(0, B) < n), mask=tl.arange(0, B) < n)

@triton.jit
def parts(x, y, heads, chunks, n, B: tl.constexpr):
    i, inside = tl.arange(0, B), tl.arange(0, B) < n
    part = tl.program_id(0) * heads * chunks + tl.program_id(1) * chunks + tl.program_id(2)
    tl.store(y + part, tl.max(tl.load(x + part * B + i, mask=inside, other=0.0)))

@triton.jit
def looked_up(x, y, at, stride, n, B: tl.constexpr):
    i, inside = tl.program_id(0) * stride + tl.arange(0, B), tl.arange(0, B) < n
    tl.store(y + i, tl.load(x + i + tl.load(at + tl.program_id(0)), mask=inside), mask=inside)

@triton.jit
def last(x, y, stride, n, B: tl.constexpr):
    end = tl.minimum(n, B) - 1
    tl.store(y + tl.program_id(0) * stride + tl.arange(0, B), tl.load(x + end + tl.arange(0, B)))

@triton.jit
def same(x, y, stride, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + tl.program_id(0) * stride + o), mask=o < n)


@triton.jit
def chunks(x, y, stride, n, B: tl.constexpr):
    at, o = tl.program_id(0) // tl.cdiv(n, 16), tl.arange(0, B)
    inside = (o[:, None] < n) & (o[None, :] >= 0)
    total = tl.zeros([B, B], tl.float32)
    for i in range(2):
        total += tl.load(x + (at + i) * stride * B + o[:, None] * B + o[None, :], mask=inside, other=0.0)
    tl.store(y + at * stride * B + o[:, None] * B + o[None, :], total, mask=inside)


@triton.jit
def backwards(x, y, stride, n, B: tl.constexpr):
    o, d = n - 1 - tl.program_id(0) * B - tl.arange(0, B), tl.arange(0, 16)
    inside = (o[:, None] >= 0) & (d[None, :] < 12)
    tl.store(y + o[:, None] * 12 + d[None, :], tl.load(x + o[:, None] * 12 + d[None, :], mask=inside), mask=inside)


@triton.jit
def nested(x, y, batch, stride, n, B: tl.constexpr, IN_PLACE: tl.constexpr):
    o, d = tl.arange(0, B), tl.arange(0, 32)
    at = y if IN_PLACE else x
    inside = (o[:, None] < n) & (d[None, :] < 24)
    last = tl.load(at + (n - 1) * 24 + d, mask=(d < 24) & (n > 0), other=0.0)
    tile = tl.load(x + o[:, None] * batch + d[None, :] * stride, mask=inside, other=0.0)
    tl.store(y + o[:, None] * batch + d[None, :] * stride, tile + last[None, :], mask=inside)


@triton.jit
def shares(x, y, stride, n, B: tl.constexpr, HEADS: tl.constexpr):
    head, part = tl.program_id(2) % HEADS, tl.program_id(2) // HEADS
    o = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for start in range(part * B, n, tl.num_programs(2) // HEADS * B):
        total += tl.load(x + (start + o) * HEADS + head, mask=start + o < n, other=0.0)
    tl.store(y + tl.program_id(2) * B + o, total)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("derive") / "k.py"
    path.write_text(KERNELS, encoding="utf-8")
    return path


def program(file: Path, name: str, *const: str) -> TileProgram:
    sig = ("x=*fp32:16", "y=*fp32:16", "stride=i32", "n=i32")
    return extract(f"{file}::{name}", sig=sig, const=("B=64", *const)).program


def at(tile: TileProgram, n: int) -> CheckedLaunch:
    return launch(tile, derived_problem(tile).case({"n": n}))


def test_what_program_instances_are_apart_by_is_no_size(file: Path) -> None:
    problem = derived_problem(program(file, "rows"))
    assert set(problem.units) == {"n"} and problem.scalars["stride"] == str(ROW)


@pytest.mark.parametrize(("block", "row"), [(64, NEAR), (2048, 4096), (32768, ROW)])
def test_rows_of_launches_are_as_far_apart_as_the_longest_needs(file: Path, block: int, row: int) -> None:
    """Not 16384 elements if each has 64: tensors would have millions, and every run goes through all of them. Rows
    are never farther apart than that."""
    sig = ("x=*fp32:16", "y=*fp32:16", "stride=i32", "n=i32")
    tile = extract(f"{file}::rows", sig=sig, const=(f"B={block}",)).program
    problem = derived_problem(tile)
    near = with_near_rows(tile, problem, [problem.case({"n": n}) for n in (0, block, 1)])
    assert near.scalars == {"stride": str(row)}
    assert row < block or independent(tile, launch(tile, near.case({"n": block})))


def test_rows_that_are_looked_up_stay_far_apart(file: Path) -> None:
    sig = ("x=*fp32:16", "y=*fp32:16", "at=*i32:16", "stride=i32", "n=i32")
    tile = extract(f"{file}::looked_up", sig=sig, const=("B=64",)).program
    assert {one.scalars["stride"] for one in launches(lower(tile, scheduled(tile), H100))} == {ROW}


@pytest.mark.parametrize(("wide", "stride"), [(128, ROW // 128), (100, ROW // 64), (1 << 20, 16)])
def test_what_a_distance_is_multiplied_with_makes_its_number_smaller(file: Path, wide: int, stride: int) -> None:
    """A tensor is as large as the addresses that are made: rows of 16384 times 128 elements are none that end soon."""
    heads = program(file, "heads", f"WIDE={wide}")
    assert derived_problem(heads).scalars["stride"] == str(stride)


def test_numbers_of_parts_that_are_multiplied_with_one_another_are_few(file: Path) -> None:
    """`pid * heads * chunks`: of 16384 each, no tensor holds what the second program instance writes."""
    sig = ("x=*fp32:16", "y=*fp32:16", "heads=i32", "chunks=i32", "n=i32")
    tile = extract(f"{file}::parts", sig=sig, const=("B=64",)).program
    assert derived_problem(tile).scalars == {"heads": "16", "chunks": "16"}
    made = at(tile, 64)
    assert made.arrays["y"].size < ROW and independent(tile, made)


@pytest.mark.parametrize("n", [1, 2, 64, 65, 130])
def test_tensors_hold_the_rows_of_a_kernel_that_goes_through_them_backwards(file: Path, n: int) -> None:
    tile = program(file, "backwards")
    case = derived_problem(tile).case({"n": n, "stride": 1})
    made = launch(tile, case)
    assert {name: array.size for name, array in made.arrays.items()} == {"x": n * 12, "y": n * 12}
    assert not leaves_tensors(tile, made)
    assert not touches_outside(tile, case, scouts(tile, made.grid, made.scalars))


@pytest.mark.parametrize(("in_place", "row"), [(False, ROW), (True, 24)])
def test_elements_of_a_tile_lie_apart_and_rows_that_are_also_read_otherwise_have_no_gap(
    file: Path, in_place: bool, row: int
) -> None:
    """Two distances of one tile are a row's and an element's, as in real tensors; equal ones would put elements on one
    another, and a row whose length the kernel knows is found only where the next one begins behind it."""
    sig = ("x=*fp32:16", "y=*fp32:16", "batch=i32", "stride=i32", "n=i32")
    tile = extract(f"{file}::nested", sig=sig, const=("B=64", f"IN_PLACE={in_place}")).program
    assert derived_problem(tile).scalars == {"batch": str(row), "stride": "1"}
    made = launch(tile, derived_problem(tile).case({"n": 64}))
    found = conflicts(tile, (1,), made.arrays, made.scalars).text
    assert found == "" or in_place and "several numbers" not in found


GROUPS = """
import triton
import triton.language as tl

@triton.jit
def heads(x, y, H, HV, level, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    here = x + (tl.program_id(1) // (HV // H)) * B
    tl.store(y + o * H, tl.load(here + o * H, mask=o < n) + (n >> level), mask=o < n)
"""


def test_what_an_argument_is_divided_by_is_a_size_and_a_number_of_bits_is_small(tmp_path: Path) -> None:
    """Query heads share a key's: a distance of 16384 would leave none for a group."""
    (tmp_path / "k.py").write_text(GROUPS, encoding="utf-8")
    sig = ("x=*i32:16", "y=*i32:16", "H=i32", "HV=i32", "level=i32", "n=i32")
    problem = derived_problem(extract(f"{tmp_path / 'k.py'}::heads", sig=sig, const=("B=64",)).program)
    assert {"H", "HV"} <= problem.units.keys() and problem.scalars["level"] == "1"


@pytest.mark.parametrize(("n", "outside"), [(0, True), (1, False)])
def test_sizes_at_which_a_kernel_reads_before_a_tensor_are_told(file: Path, n: int, outside: bool) -> None:
    tile = program(file, "last")
    case = derived_problem(tile).case({"n": n})
    assert touches_outside(tile, case, scouts(tile, case.grid, case.scalars)) == outside


def test_instances_that_write_the_same_place_are_told_and_one_of_them_is_left(file: Path) -> None:
    apart, together = (at(program(file, name), 64) for name in ("rows", "same"))
    assert independent(program(file, "rows"), apart)
    assert not independent(program(file, "same"), together)
    assert alone(together).grid == (1,) and independent(program(file, "same"), alone(together))


def test_a_kernel_without_loops_is_checked_in_whole_tiles_ragged_ones_and_none(file: Path) -> None:
    tile = program(file, "rows")
    warp = lower(tile, scheduled(tile), H100)
    met = [bounds_met(tile, scouts(tile, one.grid, one.scalars)) for one in launches(warp)]
    assert {said for one in met for *_, said in one} == {"all", "some", "none"}


def test_a_loop_that_every_size_runs_is_checked_with_whole_tiles_and_ragged_ones_and_at_no_size_of_zero(
    file: Path,
) -> None:
    """The size is none of the loop's, and the program divides by it."""
    tile = program(file, "chunks")
    warp = lower(tile, scheduled(tile), H100)
    made = [*launches(warp)]
    met = [touched(tile, scouts(tile, one.grid, one.scalars)) for one in made]
    accesses = {op.id for op in tile.ops() if op.access}
    assert {goal for one in met for goal in one} >= {("touched", op, how) for op in accesses for how in ("all", "some")}
    assert all(one.scalars["n"] for one in made)


def test_a_grid_whose_programs_are_dealt_to_heads_has_one_for_each(file: Path) -> None:
    """With fewer, the loop's step would be 0."""
    tile = program(file, "shares", "HEADS=4")
    assert derived_problem(tile).grid == ("1", "1", "4")
    made = launches(lower(tile, scheduled(tile), H100))
    assert max(one.scalars["n"] for one in made) > 64 and {one.grid for one in made} == {(1, 1, 4)}


def table(units: Mapping[str, str], elements: str, grid: str = "3") -> ProblemTable:
    scalars = {} if "stride" in units else {"stride": "64"}
    return ProblemTable(units, {"x": (elements,), "y": (elements,)}, scalars, (), (), (grid,), {})


@pytest.mark.parametrize(
    ("units", "elements", "derived"),
    [
        ({"n": "1"}, "64 * 3", False),
        ({"n": "1"}, "64", True),  # the second program instance is behind the tensor
        ({"n": "1", "stride": "1"}, "65536", True),  # with a distance of 0 all instances write one row
    ],
)
def test_sizes_of_a_table_are_taken_where_the_kernel_stays_within_its_tensors(
    file: Path, units: Mapping[str, str], elements: str, derived: bool
) -> None:
    tile = program(file, "rows")
    made = [*launches(lower(tile, scheduled(tile), H100), table(units, elements))]
    assert {one.derived for one in made} == {derived}
    assert {one.scalars["stride"] for one in made} == {NEAR if derived else 64}


@pytest.mark.parametrize(("grid", "all_tiles"), [("1", "132"), ("200", "200"), ("min(132, n)", "min(132, n)")])
def test_a_grid_recorded_at_a_launch_of_few_tiles_is_as_many_programs_as_the_loop_strides_by(
    file: Path, grid: str, all_tiles: str
) -> None:
    striding = replace(program(file, "rows"), tiles=TileLoop(0, "n", 132, once=False))
    assert of_all_tiles(striding, table({"n": "1"}, "64", grid)) == (all_tiles,)
    assert of_all_tiles(program(file, "rows"), table({"n": "1"}, "64", grid)) == (grid,)


PANELS = """
import triton
import triton.language as tl

@triton.jit
def panels(x, y, n, B: tl.constexpr):
    for k in range(0, n, B):
        y.store([0, k // B, 0, 0, 0], x.load([0, k // B, tl.program_id(0), 0, 0]))
"""


def test_a_descriptor_of_five_axes_has_the_elements_that_are_accessed(tmp_path: Path) -> None:
    """As of scales of blocks: not sixteen along each axis, which would be half a million blocks."""
    path = tmp_path / "panels.py"
    path.write_text(PANELS)
    types = tuple(f"{name}=tensordesc<i8[1,1,1,2,256]>" for name in "xy")
    program = extract(str(path), sig=(*types, "n=i32"), const=("B=64",)).program
    case = derived_problem(program).case({"n": 128})
    assert shapes(program, case) == {"x": (1, 2, 3, 2, 256), "y": (1, 2, 1, 2, 256)}
