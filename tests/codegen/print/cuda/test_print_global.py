"""Promises of tiles between registers and global memory: bounds, widths, and who stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.printed_programs import arguments, compute, simple, symbol, tile_program
from twill import exc
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.expression import Expr, Number, ProgramId, multiply
from twill.codegen.warp.layout import Accumulator, Along, Blocked, Layout, Uniform, shape_of
from twill.codegen.warp.program import LoadGlobal, Range, Reg, Stmt, StoreGlobal, WarpProgram, Window, WindowAxis

MATRIX = Accumulator(64, 48)
ARGUMENTS = arguments(X="ptr:f32", stride="i32", n="i32")
STRIDE, LIMIT = (symbol(tile_program("k", ARGUMENTS), name) for name in ("stride", "n"))


def window(element: str, shape: tuple[int, ...], upper: Expr | None = None, stride: Expr = STRIDE) -> Window:
    """Rows `stride` apart, elements side by side, all axes with the same bound."""
    strides = (*[stride] * (len(shape) - 1), Number(1))[: len(shape)]
    axes = zip(shape, strides, strict=True)
    start = multiply(ProgramId(0), Number(64))
    return Window("X", element, tuple(WindowAxis(n, s, start, None, upper) for n, s in axes), Number(0), 0.0)


def program(layout: Layout, element: str, *stmts: Stmt) -> WarpProgram:
    args = tuple(replace(a, type=replace(a.type, element=f"ptr:{element}")) if a.name == "X" else a for a in ARGUMENTS)
    return simple("k", args, [("x", element, layout), ("mask", "i1", layout)], stmts)


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_every_layout_compiles_bounded_or_not(element: str) -> None:
    small = Accumulator(64, 16)
    for layout in (small, Along(small, 1), Along(small, 0), Blocked((300,), 2), Blocked((8, 64), 4), Uniform()):
        body: list[Stmt] = []
        tile, bounded = (window(element, shape_of(layout), upper) for upper in (None, LIMIT))
        body += [LoadGlobal(bounded, 0), StoreGlobal(tile, Reg(0)), StoreGlobal(bounded, Reg(0), combine="add")]
        printed = print_cuda(program(layout, element, *body))
        compile_cubin(printed.text, lines=printed.lines)


@pytest.mark.parametrize("element", ["f8e4m3", "f8e5m2"])
def test_eight_bytes_of_fp8_under_a_bound_compile(element: str) -> None:
    layout = Blocked((1024,), 8)
    body = (LoadGlobal(window(element, (1024,), LIMIT), 0), StoreGlobal(window(element, (1024,), LIMIT), Reg(0)))
    printed = print_cuda(program(layout, element, *body))
    assert "Vector<u8, 8> held = Vector<u8, 8>{{" in printed.text
    compile_cubin(printed.text, lines=printed.lines)


def test_without_bounds_nothing_is_compared() -> None:
    made = print_cuda(program(MATRIX, "f32", LoadGlobal(window("f32", (64, 48)), 0))).text
    body = made[made.index("float x") :]
    assert "bound(" not in body and " ? " not in body


def test_neighbours_are_one_access_where_the_address_is_aligned() -> None:
    aligned = program(MATRIX, "f32", LoadGlobal(window("f32", (64, 48)), 0))
    assert "*(const Vector<float, 2>*)" in print_cuda(aligned).text
    unknown = tuple(replace(a, divisibility=1) if a.name == "stride" else a for a in aligned.program.arguments)
    odd = replace(aligned, program=replace(aligned.program, arguments=unknown))
    assert "Vector" not in print_cuda(odd).text
    strided = window("f32", (64, 48))
    wide = replace(strided, axes=(strided.axes[0], replace(strided.axes[1], stride=Number(2))))
    assert "Vector" not in print_cuda(program(MATRIX, "f32", LoadGlobal(wide, 0))).text


def test_a_bound_that_may_part_neighbours_is_checked_for_both() -> None:
    bounded = program(MATRIX, "f32", StoreGlobal(window("f32", (64, 48), LIMIT), Reg(0)))
    assert "else" not in print_cuda(bounded).text  # a multiple of 16: never between two neighbours
    odd = tuple(replace(a, divisibility=1) if a.name == "n" else a for a in bounded.program.arguments)
    parted = print_cuda(replace(bounded, program=replace(bounded.program, arguments=odd))).text
    assert "else {" in parted and "(i + 1) / 4 * 8 + ((i + 1) & 1) < high1" in parted


@pytest.mark.parametrize(
    ("layout", "condition"),
    [(Along(MATRIX, 1), "lane % 4 == 0"), (Along(MATRIX, 0), "warp == 0 && lane < 4"), (Uniform(), "leader")],
)
def test_one_of_those_that_hold_an_element_stores_it(layout: Layout, condition: str) -> None:
    made = print_cuda(program(layout, "f32", StoreGlobal(window("f32", shape_of(layout)), Reg(0)))).text
    assert f"if ({condition}) {{" in made


def test_masked_elements_are_not_touched() -> None:
    tile = window("f32", (64, 48))
    made = print_cuda(program(MATRIX, "f32", LoadGlobal(tile, 0, 1), StoreGlobal(tile, Reg(0), 1))).text
    assert "x[i] = mask[i] ? at[" in made and "if (mask[i]) at[" in made


def test_numbers_and_vectors_are_spread_over_a_window() -> None:
    tile = window("i32", (64, 48))
    number = print_cuda(program(MATRIX, "i32", StoreGlobal(tile, Number(7)))).text
    assert "at[" in number and "] = 7;" in number
    rows = simple("k", program(MATRIX, "i32").program.arguments, [("r", "i32", Along(MATRIX, 1))],
                  [Range(0, 0), compute("add", 0, 0, 0), StoreGlobal(tile, Reg(0, (0, -1)))])  # fmt: skip
    assert "r_0[(i >> 1 & 1)]" in print_cuda(rows).text


def test_atomics_on_16_bit_floats_go_by_pairs() -> None:
    stored = StoreGlobal(window("bf16", (64, 48)), Reg(0), combine="add")
    assert "reduce_add_bf16x2(at + " in print_cuda(program(MATRIX, "bf16", stored)).text


def refuses(match: str, make: Callable[[], WarpProgram]) -> None:
    with pytest.raises(exc.UnsupportedInKernel, match=match):
        print_cuda(make())


def test_what_does_not_fit_or_has_no_atomic_is_refused() -> None:
    small = LoadGlobal(window("f32", (64, 40)), 0, line=5)
    refuses(r"^k\.py:5: a tile \(64, 48\) does not fit", lambda: program(MATRIX, "f32", small))
    other = LoadGlobal(window("f32", (64, 48)), 0, line=5)
    refuses(r"^k\.py:5: 'x' of bf16 is loaded from f32", lambda: program(MATRIX, "bf16", other))
    most = StoreGlobal(window("f32", (64, 48)), Reg(0), combine="max", line=5)
    refuses(r"^k\.py:5: no atomic 'max' on f32", lambda: program(MATRIX, "f32", most))


def test_one_number_goes_to_and_from_a_tile_of_one_element() -> None:
    """A sum of a nest's loops is a tile of one element; the kernel stores it as a number, with no axis."""
    alone = window("f32", ())
    made = print_cuda(program(Blocked((1,), 1), "f32", LoadGlobal(alone, 0), StoreGlobal(alone, Reg(0))))
    compile_cubin(made.text, lines=made.lines)
