"""Promises of `twill.codegen.verify.abstract.extent`: what a launch does is foreseen from its scalars, in the numbers
that the kernel itself computes with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from twill.codegen.emission import extract
from twill.codegen.verify.abstract.extent import ScalarInstance, ZeroStep, scouts, trips_of
from twill.tile.interpret.sequential import Instance
from twill.tile.program import Loop, TileProgram, loops_of, walk

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def mixed(x, y, m, n, B: tl.constexpr):
    pid = tl.program_id(0)
    big = m * 65537 + n * n
    sign = tl.where(big < 0, -big, big)
    low = (big % 7) - (big // 13)
    half = (m.to(tl.uint32, bitcast=True) >> 1).to(tl.int32)
    wide = m.to(tl.int64) * n + pid
    count = tl.maximum(tl.minimum(sign % 5 + low % 3, 6), pid)
    o = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for i in range(count):
        total += tl.load(x + ((half % 64) + i) * B + o, mask=o < n, other=0.0)
    tl.store(y + (pid + (wide % 3) * 0) * B + o, total + low)

@triton.jit
def divided(x, y, m, n, B: tl.constexpr):
    o = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for i in range(m // n):
        total += tl.load(x + i * B + o)
    tl.store(y + o, total)

@triton.jit
def every_other(x, y, m, n, B: tl.constexpr):
    o = tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for i in range(tl.cdiv(m, B) - 1, -1, -1):
        if i & (1 << n):
            total += tl.load(x + i * B + o, mask=i * B + o < m, other=0.0)
        tl.store(y + i * B + o, total, mask=i * B + o < m)
"""
GRID = (3,)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("extent") / "k.py"
    path.write_text(KERNELS, encoding="utf-8")
    return path


def program(file: Path, name: str) -> TileProgram:
    return extract(f"{file}::{name}", sig=("x=*fp32:16", "y=*fp32:16", "m=i32", "n=i32"), const=("B=64",)).program


SIZES = [(0, 1), (5, 3), (-9, 70000), (2**31 - 1, 46341), (-(2**31), 2), (123456789, -77)]


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_scalars_are_those_that_the_kernel_computes_with(file: Path, m: int, n: int) -> None:
    """At sizes where integers of 32 bits wrap around, are negative, and are shifted and divided as unsigned ones."""
    tile, scalars = program(file, "mixed"), {"m": m, "n": n}
    for number in range(GRID[0]):
        index = (number, 0, 0)
        mine = ScalarInstance(tile, index, GRID, scalars)
        mine.run()
        tensors = {name: np.zeros(1 << 14, np.float32) for name in ("x", "y")}
        whole = Instance(tile, index, GRID, tensors, scalars)
        whole.run()
        assert mine.trips == whole.trips
        known = [result for op in tile.body if not isinstance(op, Loop) and op.id in tile.scalar_ops
                 for result in op.results]  # fmt: skip
        assert len(known) > 10
        assert [int(mine.values[value]) for value in known] == [int(whole.values[value]) for value in known]


@pytest.mark.parametrize(("m", "n"), SIZES)
def test_iterations_are_counted_without_what_they_do_not_depend_on(file: Path, m: int, n: int) -> None:
    tile, scalars = program(file, "mixed"), {"m": m, "n": n}
    counted = trips_of(tile, GRID, scalars)
    loops = [loop.id for loop in loops_of(tile.body)]
    assert counted == [tuple(scout.trips[loop] for loop in loops) for scout in scouts(tile, GRID, scalars)]


def test_an_outline_has_no_tiles_but_their_accesses(file: Path) -> None:
    tile = program(file, "mixed")
    outlined = [op.id for op in walk(tile.outline)]
    assert outlined == [op.id for op in tile.ops() if op.access is not None or op.id in tile.scalar_ops]
    assert len(outlined) < len([*tile.ops()])
    assert not [op for op in walk(tile.trips_outline) if op.access is not None]
    assert [op.id for op, _ in tile.accesses] == [op.id for op in tile.ops() if op.access is not None]


def test_a_division_by_0_is_told_where_a_loop_is_counted(file: Path) -> None:
    tile = program(file, "divided")
    assert trips_of(tile, (1,), {"m": 9, "n": 2}) == [(4,)]
    with pytest.raises(ZeroStep):
        trips_of(tile, (1,), {"m": 9, "n": 0})


@pytest.mark.parametrize(("elements", "reached"), [(300, None), (256, (128, 256)), (1000, (896, 1000))])
def test_iterations_in_which_nothing_is_loaded_reach_nothing(
    file: Path, elements: int, reached: tuple[int, int] | None
) -> None:
    """A load under a condition is said to lie very far away where the condition does not hold, in each iteration
    elsewhere: what lies between those places is not reached. (The first iteration and the last are looked at.)"""
    sig = ("x=*fp32:16", "y=*fp32:16", "m=i32", "n=i32")
    tile = extract(f"{file}::every_other", sig=sig, const=("B=128",)).program
    (load,) = (op.id for op in tile.ops() if op.access is not None and op.access.base == "x")
    (scout,) = scouts(tile, (1,), {"m": elements, "n": 0})
    first, end = scout.ranges[load, 0]
    assert (first == end) == (reached is None)
    assert reached is None or (first, end) == reached
