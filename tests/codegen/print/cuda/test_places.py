"""Promises of places: every thread's registers are the elements that the layouts say."""

from __future__ import annotations

import itertools
import math
from functools import cache
from types import CodeType

import pytest

from twill import exc
from twill.codegen.print.cuda.places import indices, inside, owner, register
from twill.codegen.warp.layout import (
    THREADS,
    Accumulator,
    Along,
    AlongBlocked,
    Blocked,
    Layout,
    Slice,
    Uniform,
    elements_of,
    runs,
    shape_of,
)

LAYOUTS: list[Layout] = [
    Accumulator(64, 8), Accumulator(128, 24), Along(Accumulator(128, 16), 1), Along(Accumulator(64, 40), 0),
    Blocked((1024,), 8), Blocked((1000,), 2), Blocked((16, 128), 8), Blocked((4, 512), 2), Blocked((3, 40), 1),
    Blocked((6, 5, 64), 4), Uniform(), Slice(Blocked((64, 32), 8), 0), Slice(Blocked((64, 32), 8), 1),
    Slice(Blocked((4, 1024), 8), 0), Slice(Blocked((4, 1024), 8), 1), Slice(Blocked((8, 8), 1), 1),
    Slice(Blocked((8, 8), 1), 0), Slice(Blocked((2, 128), 2), 1), Accumulator(16, 24), Along(Accumulator(32, 8), 1),
]  # fmt: skip
BLOCKED = [Blocked((16, 128), 8), Blocked((4, 512), 2), Blocked((4, 2048), 4), Blocked((3, 40), 1)]
VECTORS: list[Layout] = [AlongBlocked(blocked, axis) for blocked in BLOCKED for axis in (0, 1)]


def c(expression: str, thread: int, i: int) -> int:
    """The value of a C expression of nonnegative integers."""
    warp, lane = divmod(thread, 32)
    names = {"thread": thread, "warp": warp, "lane": lane, "i": i, "lane_row": warp * 16 + lane // 4,
             "lane_column": lane % 4 * 2, "leader": thread == 0}  # fmt: skip
    return int(eval(python(expression), {}, names))


@cache
def python(expression: str) -> CodeType:
    """The same expression in Python."""
    return compile(expression.replace("/", "//").replace("&&", " and "), expression, "eval")


def element(layout: Layout, thread: int, i: int) -> tuple[int, ...]:
    """As the docstring of `twill.codegen.warp.layout` defines it."""
    warp, lane = divmod(thread, 32)
    match layout:
        case Accumulator(_, columns):
            block, j = divmod(i, columns // 2)
            row = 64 * block + 16 * warp + lane // 4 + 8 * ((j >> 1) & 1)
            return row, 8 * (j >> 2) + 2 * (lane & 3) + (j & 1)
        case Along(_, axis):
            if axis == 1:
                return (64 * (i // 2) + 16 * warp + lane // 4 + 8 * (i % 2),)
            return (8 * (i // 2) + 2 * (lane & 3) + i % 2,)
        case Blocked(shape, run):
            flat = (i // run * THREADS + thread) * run + i % run
            return tuple(flat // math.prod(shape[axis + 1 :]) % shape[axis] for axis in range(len(shape)))
        case Slice(parent, axis):
            return (held(parent, axis, thread)[i],)
        case AlongBlocked(parent, axis):
            return (element(parent, thread, i * (parent.run if axis == 1 else 1))[1 - axis],)
        case Uniform():
            return ()


@cache
def held(parent: Blocked, axis: int, thread: int) -> list[int]:
    """Which elements of a slice a thread has, in the order of its registers."""
    every = [element(parent, thread, n) for n in range(elements_of(parent))]
    return [*dict.fromkeys(place[1 - axis] for place in every if axis == 1 or place[0] == every[0][0])]


@pytest.mark.parametrize("layout", [*LAYOUTS, *VECTORS], ids=str)
def test_the_printed_index_is_the_layout_s(layout: Layout) -> None:
    places, guard = indices(layout), inside(layout)
    for thread, i in itertools.product(range(THREADS), range(elements_of(layout))):
        if not guard or c(guard, thread, i):
            assert tuple(c(place.text(), thread, i) for place in places) == element(layout, thread, i)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_owners_hold_every_element_once(layout: Layout) -> None:
    elements = [
        element(layout, thread, i)
        for thread, i in itertools.product(range(THREADS), range(elements_of(layout)))
        if c(owner(layout) or "1", thread, i) and c(inside(layout) or "1", thread, i)
    ]
    assert sorted(elements) == list(itertools.product(*map(range, shape_of(layout))))


@pytest.mark.parametrize("rows", [64, 128])
def test_an_operand_s_register_holds_the_element_of_the_same_row_or_column(rows: int) -> None:
    matrix = Accumulator(rows, 24)
    for axes, vector in (((0, -1), Along(Accumulator(rows, 8), 1)), ((-1, 0), Along(Accumulator(64, 24), 0))):
        place = register(matrix, vector, axes)
        for thread, i in itertools.product(range(THREADS), range(elements_of(matrix))):
            found = element(vector, thread, c(place, thread, i))[0]
            assert found == element(matrix, thread, i)[axes.index(0)]


@pytest.mark.parametrize("shape", [(64, 32), (4, 1024), (8, 8), (2, 128)])
def test_an_operand_of_a_blocked_matrix_s_register_holds_the_element_of_the_same_row_or_column(
    shape: tuple[int, int],
) -> None:
    matrix = runs(shape)
    for axes, vector in (((0, -1), Slice(matrix, 1)), ((-1, 0), Slice(matrix, 0))):
        place, guard = register(matrix, vector, axes), inside(matrix)
        for thread, i in itertools.product(range(THREADS), range(elements_of(matrix))):
            if not guard or c(guard, thread, i):
                found = element(vector, thread, c(place, thread, i))[0]
                assert found == element(matrix, thread, i)[axes.index(0)]


@pytest.mark.parametrize("matrix", BLOCKED, ids=str)
@pytest.mark.parametrize(("axes", "axis"), [((0, -1), 1), ((-1, 0), 0)])
def test_a_vector_of_a_blocked_matrix_is_where_the_matrix_is(matrix: Blocked, axes: tuple[int, ...], axis: int) -> None:
    place = register(matrix, AlongBlocked(matrix, axis), axes)
    for thread, i in itertools.product(range(THREADS), range(elements_of(matrix))):
        found = element(AlongBlocked(matrix, axis), thread, c(place, thread, i))[0]
        assert found == element(matrix, thread, i)[axes.index(0)]


def test_an_operand_that_other_threads_hold_is_a_conflict() -> None:
    with pytest.raises(exc.UnsupportedInKernel, match="other threads hold it"):
        register(Accumulator(64, 64), Blocked((64,), 1), (0, -1))
    with pytest.raises(exc.UnsupportedInKernel, match="other threads hold it"):
        register(Blocked((128,), 1), Blocked((128,), 2), ())
