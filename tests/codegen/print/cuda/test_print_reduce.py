"""Promises of reductions in CUDA: every combination, type and shape compiles, in one order for all threads."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.printed_programs import arguments, matrix, simple
from twill import exc
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import Accumulator, Along, Blocked, Layout, Uniform, shape_of
from twill.codegen.warp.program import (
    Attributes,
    Fill,
    NamedBarrier,
    Reduce,
    Reg,
    Stmt,
    StoreGlobal,
    WarpProgram,
    Window,
    WindowAxis,
)

MATRIX = Accumulator(128, 16)
ROWS, COLUMNS, FLAT = Along(MATRIX, 1), Along(MATRIX, 0), Blocked((1000,), 2)
REDUCTIONS: list[tuple[Layout, int, Layout]] = [
    (MATRIX, 1, ROWS), (MATRIX, 0, COLUMNS), (FLAT, 0, Uniform()), (ROWS, 0, Uniform()), (COLUMNS, 0, Uniform()),
]  # fmt: skip
COMBINATIONS = {
    "f32": ("add", "max", "min"), "bf16": ("add", "max"), "f64": ("add", "min"), "i1": ("and", "or"),
    "i8": ("add", "max"), "i32": ("add", "max", "min", "and", "or", "xor"), "i64": ("add", "min"),
}  # fmt: skip


def reductions(element: str, combine: str, scratch: bool = True, said: Attributes = ()) -> WarpProgram:
    """All shapes in one kernel."""
    fragments: list[tuple[str, str, Layout]] = []
    body: list[Stmt] = []
    for operand, axis, result in REDUCTIONS:
        number = len(fragments)
        fragments += [("x", element, operand), ("y", element, result)]
        axes = tuple(WindowAxis(extent, Number(1), Number(0)) for extent in shape_of(result))
        place = 0 if scratch else None
        reduce = Reduce(number, number + 1, axis, combine, place, place, said, line=9)
        body += [Fill(number, Number(1, element)), reduce,
                 StoreGlobal(Window("X", element, axes, Number(0), 0.0), Reg(number + 1))]  # fmt: skip
    return simple("k", arguments(X=f"ptr:{element}"), fragments, body, buffers=[matrix(0, "scratch", (2048,), "f32")],
                  barriers=[NamedBarrier(0, "all of it", (0,), 128)])  # fmt: skip


@pytest.mark.parametrize("element", ["f32", "bf16", "i1", "i64"])
def test_every_kind_of_type_compiles(element: str) -> None:
    printed = print_cuda(reductions(element, COMBINATIONS[element][0]))
    compile_cubin(printed.text, lines=printed.lines)


@pytest.mark.parametrize(("element", "combine"), [(e, c) for e, cs in COMBINATIONS.items() for c in cs])
def test_a_shuffle_is_never_inside_of_what_may_branch(element: str, combine: str) -> None:
    text = print_cuda(reductions(element, combine)).text
    shuffles = [line.strip() for line in text.splitlines() if "shuffle" in line]
    assert len(shuffles) == 2 + 3 + 5 + 3 + 2
    assert all(re.fullmatch(r"other = shuffle_xor\(whole\[r\], \d+\);", line) for line in shuffles)


def test_rows_are_reduced_by_two_chains_and_four_lanes() -> None:
    text = print_cuda(reductions("f32", "max")).text
    assert "chain0 = i == 0 ? x[r / 2 * 8 + r % 2 * 2 + i * 4]" in text
    assert "chain1 = i == 0 ? x[r / 2 * 8 + r % 2 * 2 + i * 4 + 1]" in text


def test_padding_is_neutral() -> None:
    for said, neutral in (((("propagate_nan", 1),), "infinity"), ((), "not_a_number")):
        text = print_cuda(reductions("f32", "min", said=said)).text
        assert re.search(rf"< 1000 \? x_\d+\[i \* 4 \+ 3\] : {neutral}\(\)\)", text)


def test_warps_meet_in_scratch_memory_of_the_right_size() -> None:
    with pytest.raises(exc.UnsupportedInKernel, match=r"k\.py:9: a reduction over warps without scratch"):
        print_cuda(reductions("f32", "add", scratch=False))
    program = reductions("f32", "add")
    small = replace(program.buffers[0], bytes=16)
    with pytest.raises(exc.UnsupportedInKernel, match="16 bytes for a reduction that needs 256"):
        print_cuda(replace(program, buffers=(small,)))


def test_the_largest_unsigned_number_is_the_largest_everywhere() -> None:
    """In registers, lanes and warps: rows, columns, vectors and flat tiles."""
    signed, unsigned = (print_cuda(reductions("i32", "max", said=(("signed", sign),))).text for sign in (1, 0))
    compared = re.findall(r"\((\S+) > (\S+) \?", unsigned)
    assert len(compared) == len(re.findall(r"\((\S+) > (\S+) \?", signed)) > 0
    assert all(left.startswith("(u32)") and right.startswith("(u32)") for left, right in compared)
    assert re.search(r"< 1000 \? \S+( \+ 0\))? : 0\)", unsigned)  # the least of them


def test_short_unsigned_numbers_are_widened_as_such() -> None:
    text = print_cuda(reductions("i8", "min", said=(("signed", 0),))).text
    assert "(i32)(u8)x[" in text
    assert re.search(r"< 1000 \? \(i32\)\(u8\)x_\d+\[i \* 4 \+ 3\] : -1\)", text)  # all bits: the greatest


@pytest.mark.parametrize(("element", "combine"), [("f32", "max"), ("f32", "min"), ("bf16", "max"), ("f64", "min")])
def test_nan_propagates_where_it_is_to(element: str, combine: str) -> None:
    """From every place to every place: never by the functions that leave NaN out."""
    text = print_cuda(reductions(element, combine, said=(("propagate_nan", 1),))).text
    assert f"{combine}_nan(" in text and not re.search(rf"\bf{combine}f?\(", text)


def test_signs_and_nan_compile() -> None:
    for element, combine, said in (("i8", "max", "signed"), ("f64", "min", "propagate_nan")):
        printed = print_cuda(reductions(element, combine, said=((said, int(said != "signed")),)))
        compile_cubin(printed.text, lines=printed.lines)
