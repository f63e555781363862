"""Promises of `twill.codegen.verify.abstract.unstored`: kernels that look bounds up are checked where they store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import launches
from twill.codegen.verify.abstract.unstored import changed, one_twice_as_long
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import StoreGlobal, WarpProgram
from twill.exc import BudgetExhausted, UnknownProblem

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def rows(x, y, begins, ends, B: tl.constexpr, LESS: tl.constexpr):
    begin, end = tl.load(begins + tl.program_id(0)), tl.load(ends + tl.program_id(0)) - LESS
    o = begin + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < end, other=0.0), mask=o < end)
"""


BEHIND = """
import triton
import triton.language as tl

@triton.jit
def chunks(x, y, scale, T, FIRST, B: tl.constexpr):
    o = FIRST * B + tl.arange(0, B)
    at = tl.load(scale + tl.program_id(0))
    inside = (FIRST * 200 < T) & (at > -99)
    tl.store(y + tl.program_id(0) * 8192 + o, tl.load(x + o) * at, mask=inside)
"""


def program(folder: Path, less: int) -> WarpProgram:
    """Rows that begin and end at numbers from 0 to 2, the latter less a number."""
    (folder / "k.py").write_text(KERNEL, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "begins=*i32:16", "ends=*i32:16")
    tile = extract(f"{folder / 'k.py'}::rows", sig=sig, const=("B=64", f"LESS={less}")).program
    return lower(tile, scheduled(tile), H100)


@pytest.mark.parametrize("less", [0, 1, 50])
def test_some_launch_stores_however_few_of_the_numbers_let_it(tmp_path: Path, less: int) -> None:
    right = program(tmp_path, less)
    assert any("y" in changed(right.program, one) for one in launches(right))
    assert not verify(right)
    (group,) = right.groups
    left = tuple(stmt for stmt in group.body if not isinstance(stmt, StoreGlobal))
    assert len(left) < len(group.body)
    assert verify(replace(right, groups=(replace(group, body=left),)))


def test_a_kernel_that_no_numbers_let_store_is_refused_with_what_says_them(tmp_path: Path) -> None:
    with pytest.raises(UnknownProblem, match="no numbers were found for what `rows` looks up"):
        launches(program(tmp_path, 1000))


SEQUENCES = """
import triton
import triton.language as tl

@triton.jit
def to_the_right(x, y, begins, S, B: tl.constexpr):
    n, s = tl.program_id(0) // S, tl.program_id(0) % S
    begin, end = tl.load(begins + n), tl.load(begins + n + 1)
    free = S - (end - begin)
    if s < free:
        return
    o = tl.arange(0, B)
    tl.store(y + (begin + s - free) * B + o, tl.load(x + tl.program_id(0) * B + o))
"""


def test_sequences_that_lie_behind_one_another_are_found(tmp_path: Path) -> None:
    """Their begins ascend, and are some elements apart."""
    (tmp_path / "k.py").write_text(SEQUENCES, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "begins=*i32:16", "S=i32:16")
    tile = extract(f"{tmp_path / 'k.py'}::to_the_right", sig=sig, const=("B=64",)).program
    right = lower(tile, scheduled(tile), H100)
    assert any("y" in changed(tile, one) for one in launches(right))


def test_work_behind_the_elements_that_another_size_says_is_found(tmp_path: Path) -> None:
    """A launch of the later chunks of a tensor, that are there from 200 elements on: no tensor of 129 has any."""
    (tmp_path / "k.py").write_text(BEHIND, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "scale=*fp32:16", "T=i32", "FIRST=i32")
    tile = extract(f"{tmp_path / 'k.py'}::chunks", sig=sig, const=("B=128",)).program
    right = lower(tile, scheduled(tile), H100)
    assert any("y" in changed(tile, one) for one in launches(right))


CHUNKS = """
import triton
import triton.language as tl

@triton.jit
def sums(x, y, chunks, begins, B: tl.constexpr):
    n, t = tl.load(chunks + tl.program_id(0) * 2), tl.load(chunks + tl.program_id(0) * 2 + 1)
    begin, end = tl.load(begins + n), tl.load(begins + n + 1)
    if t * 64 >= end - begin:
        return
    o, total = tl.arange(0, B), tl.zeros((B,), tl.float32)
    for i in range(0, min(16, end - begin - t * 64)):
        total += tl.load(x + (begin + t * 64 + i) * B + o)
    tl.store(y + (begin + t * 64) * B + o, total)
"""


def test_the_first_chunk_of_a_sequence_is_looked_up(tmp_path: Path) -> None:
    """Which chunk of which sequence an instance has is looked up, and how long the sequence is, too: the later chunks
    of short ones do nothing."""
    (tmp_path / "k.py").write_text(CHUNKS, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "chunks=*i32:16", "begins=*i32:16")
    tile = extract(f"{tmp_path / 'k.py'}::sums", sig=sig, const=("B=64",)).program
    right = lower(tile, scheduled(tile), H100)
    assert any("y" in changed(tile, one) for one in launches(right))


BEFORE = """
import triton
import triton.language as tl

@triton.jit
def window(x, y, ends, lengths, B: tl.constexpr, BACK: tl.constexpr):
    end, length = tl.load(ends + tl.program_id(0)), tl.load(lengths + tl.program_id(0))
    o = tl.arange(0, B)
    tl.store(y + tl.program_id(0) * B + o, tl.load(x + (end - length - BACK) * B + o))
"""


@pytest.mark.parametrize("back", [0, 1, 50, 1000])
def test_numbers_are_as_large_as_what_is_taken_from_them(tmp_path: Path, back: int) -> None:
    """Of two numbers that are subtracted from one another the first is made up as large as it has to be."""
    (tmp_path / "k.py").write_text(BEFORE, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "ends=*i32:16", "lengths=*i32:16")
    tile = extract(f"{tmp_path / 'k.py'}::window", sig=sig, const=("B=64", f"BACK={back}")).program
    right = lower(tile, scheduled(tile), H100)
    assert all("y" in changed(tile, one) for one in launches(right))


APART = """
import triton
import triton.language as tl

@triton.jit
def rows(x, y, which, begins, S, R, B: tl.constexpr):
    begin = tl.load(begins + tl.load(which + tl.program_id(0) * S) * S)
    o = tl.arange(0, B)
    tl.store(y + begin * R + o, tl.load(x + begin * R + o))
"""


def test_numbers_that_lie_apart_in_memory_are_small(tmp_path: Path) -> None:
    """A table with gaps as wide as a stride says tells which of a few rows are meant, not one for each gap."""
    (tmp_path / "k.py").write_text(APART, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "which=*i32:16", "begins=*i32:16", "S=i32:16", "R=i32:16")
    tile = extract(f"{tmp_path / 'k.py'}::rows", sig=sig, const=("B=64",)).program
    right = lower(tile, scheduled(tile), H100)
    assert max(array.size for one in launches(right) for array in one.arrays.values()) < 1 << 20


LAST = """
import triton
import triton.language as tl

@triton.jit
def tail(x, y, begins, lengths, n, B: tl.constexpr):
    page, row, last = tl.program_id(0), tl.program_id(1), tl.num_programs(1) - 1
    o = page * B + tl.arange(0, B)
    if row == last:
        begin = tl.load(begins + last - 1) + tl.load(lengths + last - 1)
        tl.store(y + begin + o, 0.0, mask=begin + o < n)
        return
    begin, length = tl.load(begins + row), tl.load(lengths + row)
    tl.store(y + begin + o, tl.load(x + row * 4096 + o), mask=o < length)
"""


def test_the_last_program_along_an_axis_finds_one_before_it(tmp_path: Path) -> None:
    """With one program along axis 1, the last one looks up what is in front of the tables."""
    (tmp_path / "k.py").write_text(LAST, encoding="utf-8")
    sig = ("x=*fp32:16", "y=*fp32:16", "begins=*i32:16", "lengths=*i32:16", "n=i32")
    tile = extract(f"{tmp_path / 'k.py'}::tail", sig=sig, const=("B=64",)).program
    made = launches(lower(tile, scheduled(tile), H100))
    assert all(one.grid[1] > 1 for one in made) and any("y" in changed(tile, one) for one in made)


def test_where_no_size_was_more_than_nothing_some_elements_are_tried() -> None:
    """Loops of constant trip counts have theirs without any element, so that nothing more may be asked for."""
    assert {"T": 80} in [*one_twice_as_long([{"T": 0}], {"T": 16})]
    assert {"T": 2, "N": 64} in [*one_twice_as_long([{"T": 1, "N": 16}, {"T": 1, "N": 32}], {"T": 1, "N": 16})]
    assert [*one_twice_as_long([{"T": 3}], {"T": 1})] == [{"T": 6}, {"T": 6}]


FAR = """
import triton
import triton.language as tl

@triton.jit
def far(x, y, which, B: tl.constexpr):
    n, o = tl.load(which + tl.program_id(0)).to(tl.int64), tl.arange(0, B)
    tl.store(y + n * B + o, tl.load(x + (n + 1) * 4294967296 + o))
"""


def test_fail_a_tensor_that_no_check_can_be_made_with(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(FAR, encoding="utf-8")
    tile = extract(f"{tmp_path / 'k.py'}::far", sig=("x=*fp32:16", "y=*fp32:16", "which=*i32:16"), const=("B=64",))
    with pytest.raises(UnknownProblem, match=r"`x` of `far` would have \d+ elements in a launch that is made up"):
        launches(lower(tile.program, scheduled(tile.program), H100))


def test_no_launch_is_made_up_when_the_time_is_over(tmp_path: Path) -> None:
    """Each takes a run of the program, however long that is."""
    asked: list[int] = []

    def over() -> bool:
        asked.append(0)
        return len(asked) > 3

    with pytest.raises(BudgetExhausted, match="rows ended while it was run on the abstract machine"):
        launches(program(tmp_path, 99), over=over)
    assert len(asked) == 4
