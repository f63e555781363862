"""Promises of `twill.tile.interpret.conflicts`: launches whose results nothing defines are told, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret.arrays import np
from twill.tile.interpret.conflicts import Conflicts, conflicts
from twill.tile.interpret.elements import OutsideOfTensor
from twill.tile.program import TileProgram
from twill.tile.translate.translate import tile_program

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def shared(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + tl.program_id(0) * B + o))

@triton.jit
def alike(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + o))

@triton.jit
def neighbour(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(y + o + B) + tl.load(x + o))

@triton.jit
def inplace(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(y + o) + tl.load(x + o))

@triton.jit
def sums(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.atomic_add(y + o, tl.load(x + tl.program_id(0) * B + o))

@triton.jit
def strided(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B * 8 + tl.arange(0, B)[:, None] * n + tl.arange(0, 4)[None, :]
    tl.store(y + o, tl.load(x + tl.arange(0, B)[:, None] * 4 + tl.arange(0, 4)[None, :]))

@triton.jit
def turned(x, y, n, B: tl.constexpr):
    o, at = tl.arange(0, B), tl.program_id(0) * B
    tl.store(y + at + o, tl.load(x + at + o))
    tl.store(x + at + o, tl.load(y + at + B - 1 - o))

@triton.jit
def again(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    for i in range(4):
        tl.store(y + o, tl.load(x + o) * i)

@triton.jit
def divided(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o), mask=o < tl.program_id(0) // n)

@triton.jit
def channels(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o // n))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conflicts") / "k.py"
    path.write_text(KERNELS, encoding="utf-8")
    return path


def program(file: Path, name: str) -> TileProgram:
    kernel = resolve(f"{file}::{name}", sig=["x=*fp32:16", "y=*fp32:16", "n=i32"], const=["B=16"])
    return resolve_accesses(tile_program(kernel))


def found(file: Path, name: str, n: int = 4, programs: int = 3) -> Conflicts:
    arrays = {name: np.random.default_rng(0).standard_normal(1024).astype(np.float32) for name in "xy"}
    before = {name: array.copy() for name, array in arrays.items()}
    said = conflicts(program(file, name), (programs,), arrays, {"n": n})
    assert all(np.array_equal(arrays[name], before[name]) for name in before)
    return said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "shared",
            "program instance 1 writes element 0 of `y` at line 8, and program instance 0 writes something else",
        ),
        ("neighbour", "program instance 1 writes element 16 of `y` at line 18, and program instance 0 reads"),
    ],
)
def test_instances_in_one_another_s_way_are_told(file: Path, name: str, words: str) -> None:
    assert found(file, name).between.startswith(words)
    assert not found(file, name, programs=1).text


@pytest.mark.parametrize(
    ("name", "n", "words"),
    [
        ("strided", 3, "writes several numbers at once"),
        ("turned", 4, "reads what another of its threads writes"),
        ("divided", 0, "divides by zero at line 50"),
        ("channels", 0, "divides by zero at line 55"),
    ],
)
def test_threads_of_one_instance_in_one_another_s_way_are_told(file: Path, name: str, n: int, words: str) -> None:
    said = found(file, name, n)
    assert words in said.within and not said.between and said.text == said.within


@pytest.mark.parametrize(
    ("name", "n"),
    [("alike", 4), ("inplace", 4), ("sums", 4), ("strided", 4), ("again", 4), ("divided", 1), ("channels", 8)],
)
def test_what_every_order_leaves_alike_is_defined(file: Path, name: str, n: int) -> None:
    assert not found(file, name, n).text


def test_of_what_is_no_number_nothing_is_known(file: Path) -> None:
    arrays = {"x": np.full(64, np.nan, np.float32), "y": np.zeros(64, np.float32)}
    said = conflicts(program(file, "shared"), (2,), arrays, {"n": 4})
    assert "program instance 0 writes something else" in said.between


def test_fail_a_store_into_a_tensor_without_elements(file: Path) -> None:
    arrays = {"x": np.zeros(64, np.float32), "y": np.zeros(0, np.float32)}
    with pytest.raises(OutsideOfTensor):
        conflicts(program(file, "shared"), (2,), arrays, {"n": 4})
