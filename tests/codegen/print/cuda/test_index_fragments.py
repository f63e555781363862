"""Promises of index fragments: which tiles need one register, and how they are compared."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.printed_programs import arguments, compute, simple
from twill.codegen.print.cuda.index_fragments import find_index_fragments
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.expression import Apply, Number, ProgramId
from twill.codegen.warp.layout import Accumulator, Along, Blocked, Layout, Uniform
from twill.codegen.warp.program import Copy, Fill, LoadGlobal, Range, Reg, Stmt, Window, WindowAxis

MATRIX = Accumulator(64, 64)
ROWS, COLUMNS = Along(MATRIX, 1), Along(MATRIX, 0)
FRAGMENTS: list[tuple[str, str, Layout]] = [
    ("offs_m", "i32", ROWS), ("offs_n", "i32", COLUMNS), ("distance", "i32", MATRIX), ("visible", "i1", MATRIX),
]  # fmt: skip
DIFFERENCE = compute("sub", 2, Reg(0, (0, -1)), Reg(1, (-1, 0)))
WINDOW = Window("X", "i32", (WindowAxis(64, Number(1), Number(0)),), Number(0), 0.0)


def found(body: Sequence[Stmt]) -> dict[int, tuple[int, ...]]:
    return find_index_fragments(simple("k", arguments(X="ptr:i32"), FRAGMENTS, body).groups[0])


def test_ranges_and_what_is_added_to_them_are_indices() -> None:
    body = [Range(0, 0), compute("add", 0, 0, ProgramId(0)), Range(1, 5), DIFFERENCE]
    assert found(body) == {0: (1,), 1: (1,), 2: (1, -1)}


def test_multiples_of_ranges_are_indices() -> None:
    body = [Range(0, 0), Range(1, 0), compute("mul", 2, Reg(1, (-1, 0)), Number(3))]
    assert found(body) == {0: (1,), 1: (1,), 2: (0, 3)}


@pytest.mark.parametrize(
    "spoils",
    [
        LoadGlobal(WINDOW, 0),  # not an index
        compute("mul", 0, 0, Number(2)),  # another coefficient than before
        compute("mul", 0, 0, 0),  # not linear
        compute("max", 0, 0, Number(3)),
        Fill(0, Number(0)),  # all the same
    ],
)
def test_a_tile_that_is_sometimes_something_else_is_none(spoils: Stmt) -> None:
    assert found([Range(0, 0), spoils, Range(1, 0), DIFFERENCE]) == {1: (1,)}


def test_what_is_made_from_a_later_definition_is_found() -> None:
    assert found([Copy(1, 1), Range(1, 0), Fill(0, Number(7)), DIFFERENCE]) == {0: (0,), 1: (1,), 2: (0, -1)}


def test_one_number_for_all_is_no_tile_of_indices() -> None:
    program = simple("k", (), [("n", "i32", Uniform())], [Fill(0, Number(1))])
    assert find_index_fragments(program.groups[0]) == {}


def test_a_mask_compares_one_difference_with_constants() -> None:
    mask = compute("compare", 3, Reg(0, (0, -1)), Reg(1, (-1, 0)), predicate="ge", signed=1)
    text = print_cuda(simple("k", (), FRAGMENTS, [Range(0, 0), Range(1, 0), mask])).text
    assert "i32 offs_m;" in text and "i32 offs_n;" in text
    assert "= bound((i64)offs_m - (i64)offs_n);" in text
    assert "visible[i] = (apart >= ((i / 4 * 8 + (i & 1))) - (((i >> 1 & 1) * 8)));" in text


def test_unsigned_comparisons_are_made_element_by_element() -> None:
    mask = compute("compare", 3, Reg(0, (0, -1)), Reg(1, (-1, 0)), predicate="ge", signed=0)
    text = print_cuda(simple("k", (), FRAGMENTS, [Range(0, 0), Range(1, 0), mask])).text
    assert "bound(" not in text and "(u32)(offs_m + " in text


VECTOR = Blocked((2048,), 8)


@pytest.mark.parametrize(
    ("start", "limit", "predicate", "once"),
    [(0, 16, "lt", True), (8, 16, "ge", True), (0, 16, "le", False), (0, 12, "lt", False), (4, 16, "lt", False)],
)
def test_a_run_of_a_vector_has_one_answer_where_both_sides_are_multiples_of_it(
    start: int, limit: int, predicate: str, once: bool
) -> None:
    """index < limit for index = 8 thread + start + i and a limit of a known divisor."""
    fragments: list[tuple[str, str, Layout]] = [("offs", "i32", VECTOR), ("mask", "i1", VECTOR)]
    bound = Apply("mul", (ProgramId(0), Number(limit)), "i32")
    body = [Range(0, start), compute("compare", 1, Reg(0), bound, predicate=predicate, signed=1)]
    text = print_cuda(simple("k", (), fragments, body)).text
    assert ("(i / 8 * 8) % 8" in text) == once
    for index in range(-64, 64):
        first = index - index % 8
        answers = (index < 0, first < 0) if predicate in ("lt", "ge") else (index <= 0, first <= 0)
        assert not once or answers[0] == answers[1]
