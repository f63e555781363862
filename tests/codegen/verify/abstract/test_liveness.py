"""Promises of `twill.codegen.verify.abstract.liveness`: how many registers fragments are thought to need."""

from __future__ import annotations

from twill.codegen.verify.abstract.liveness import peak
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import Accumulator, Along, Layout
from twill.codegen.warp.program import Compute, Fill, Fragment, Reg, Stmt, WarpGroup

TILE = Accumulator(64, 128)  # 64 registers of f32 a thread
ROWS = Along(TILE, 1)
X, HALF, ERROR, PRODUCT, SHORT, ROW = range(6)


def group(*body: Stmt) -> WarpGroup:
    layouts: list[tuple[str, Layout]] = [*[("f32", TILE)] * 4, ("bf16", TILE), ("f32", ROWS)]
    fragments = tuple(Fragment(i, f"f{i}", element, layout) for i, (element, layout) in enumerate(layouts))
    return WarpGroup(0, "consumer 0", 128, 232, False, fragments, (), body)


def of(kind: str, result: int, *operands: int) -> Compute:
    return Compute(kind, tuple(Reg(operand) for operand in operands), result)


GELU = (of("mul", HALF, X, X), of("erf", ERROR, X), of("mul", PRODUCT, HALF, ERROR), of("cast", SHORT, PRODUCT))


def test_a_chain_on_a_matrix_needs_what_it_begins_and_ends_with() -> None:
    assert peak(group(Fill(X, Number(0.0, "f32")), *GELU)) == (64, 0)
    assert peak(group(Fill(X, Number(0.0, "f32")), *GELU, of("add", X, X, SHORT)))[0] == 64


def test_what_outlives_the_chain_counts_beside_it() -> None:
    later = of("add", ROW, ROW)
    assert peak(group(Fill(X, Number(0.0, "f32")), *GELU, later, of("add", HALF, X, SHORT)))[0] == 64 + 32 + 2


def test_values_that_wait_behind_other_work_are_whole() -> None:
    between = of("add", ROW, ROW)
    assert peak(group(Fill(X, Number(0.0, "f32")), GELU[0], between, *GELU[1:]))[0] == 64 + 64 + 2
