"""Accesses of one tensor are ordered unless they are provably apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tile_programs import Programs
from twill.graph.alias import LoopCounter, MemoryNode, memory_edges
from twill.tile.affine import Polynomial, as_polynomial
from twill.tile.program import Access, Axis, Op

I = Polynomial.symbol(0)  # noqa: E741
S = Polynomial.symbol(1)
LOOP = LoopCounter(0, 1)


def access(kind: str, *offsets: int | Polynomial, base: str = "x", extent: int = 64, combine: str = "add") -> Op:
    strides = [Polynomial.symbol(9), Polynomial.constant_of(1)][-len(offsets) :]
    axes = tuple(Axis(extent, stride, as_polynomial(o)) for o, stride in zip(offsets, strides, strict=True))
    attributes = (("combine", combine),) if kind == "tile_reduce" else ()
    return Op(0, kind, (), (), attributes, 1, "", Access(base, "f32", axes, Polynomial(), 0.0, "tma", ""))


def edges(*ops: Op, counter: LoopCounter | None = LOOP) -> list[tuple[int, int, int]]:
    found = memory_edges([MemoryNode(i, op) for i, op in enumerate(ops)], counter)
    return [(e.src, e.dst, e.distance) for e in found]


LOAD, STORE, REDUCE = "tile_load", "tile_store", "tile_reduce"


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ([access(LOAD, I * 64), access(LOAD, I * 64)], []),
        ([access(LOAD, I * 64), access(STORE, I * 64, base="y")], []),
        ([access(LOAD, I * 64), access(STORE, I * 64)], [(0, 1, 0)]),
        ([access(STORE, I * 64), access(LOAD, I * 64)], [(0, 1, 0)]),
        # what is stored is loaded by the next iteration, or by the third one after
        ([access(LOAD, I * 64 - 64), access(STORE, I * 64)], [(1, 0, 1)]),
        ([access(LOAD, I * 64 - 192), access(STORE, I * 64)], [(1, 0, 3)]),
        # half of it by the next iteration already
        ([access(LOAD, I * 64 - 96), access(STORE, I * 64)], [(1, 0, 1)]),
        # one address in every iteration
        ([access(STORE, 0)], [(0, 0, 1)]),
        ([access(STORE, I * 64)], []),
        ([access(STORE, I * 32)], [(0, 0, 1)]),
        ([access(STORE, I * -64)], []),
        # other rows
        ([access(LOAD, 0, I * 64), access(STORE, 64, I * 64)], []),
        ([access(LOAD, 0, I * 64), access(STORE, 63, I * 64)], [(0, 1, 0)]),
        # unknown distances
        ([access(LOAD, S), access(STORE, 0)], [(0, 1, 0), (1, 0, 1), (1, 1, 1)]),
        ([access(STORE, I * S)], [(0, 0, 1)]),
        # sums commute with each other and with nothing else
        ([access(REDUCE, 0), access(REDUCE, 0)], []),
        ([access(REDUCE, 0), access(REDUCE, 0, combine="max")], [(0, 1, 0), (1, 0, 1)]),
        ([access(REDUCE, I * 64), access(LOAD, I * 64)], [(0, 1, 0)]),
    ],
)
def test_order_in_a_loop(ops: list[Op], expected: list[tuple[int, int, int]]) -> None:
    assert edges(*ops) == expected


def test_the_step_of_the_loop_counts() -> None:
    assert edges(access(STORE, I), counter=LoopCounter(0, 64)) == []
    assert edges(access(STORE, I), counter=LoopCounter(0, 32)) == [(0, 0, 1)]
    assert edges(access(STORE, I), counter=LoopCounter(0, None)) == [(0, 0, 1)]


def test_a_constant_beyond_a_row_is_so_many_rows() -> None:
    """`x + (i + 1) * 64 * 128 + 64` begins 64 rows further on, whichever axis says so."""

    def at(kind: str, row: int | Polynomial, column: int) -> Op:
        axes = (
            Axis(64, Polynomial.constant_of(128), as_polynomial(row)),
            Axis(64, Polynomial.constant_of(1), as_polynomial(column)),
        )
        return Op(0, kind, (), (), (), 1, "", Access("x", "f32", axes, Polynomial(), 0.0, "tma", ""))

    for row, column in ((I * 64 + 64, 64), (I * 64, 64 * 128 + 64), (I * 64 + 128, 64 - 64 * 128)):
        assert edges(at(LOAD, I * 64, 64), at(STORE, row, column)) == [(1, 0, 1)]
        assert edges(at(LOAD, I * 64, 0), at(STORE, row, column)) == []
    assert edges(at(LOAD, I * 64, -1), at(STORE, I * 64, 0)) == [(0, 1, 0)]


def test_what_changes_from_iteration_to_iteration_beside_the_counter_keeps_nothing_apart() -> None:
    """The row of a nest that is one loop, or a number that is loaded: the next one may be where this one ends."""
    row, loop = S * 64, LoopCounter(0, 1, frozenset({1}))
    assert edges(access(LOAD, row), access(STORE, row + 64)) == [(1, 1, 1)]
    assert edges(access(LOAD, row), access(STORE, row + 64), counter=loop) == [(1, 0, 1), (0, 1, 1), (1, 1, 1)]
    assert edges(access(LOAD, row), access(STORE, row), counter=loop) == [(0, 1, 0), (1, 0, 1), (1, 1, 1)]
    moving = [
        replace(op, access=replace(op.access, constant=I * 64))
        for op in (access(LOAD, 0), access(STORE, 64))
        if op.access
    ]
    assert edges(*moving) == [(1, 0, 1), (0, 1, 1), (1, 1, 1)]


def test_straight_line_code_has_no_edges_across_iterations() -> None:
    assert edges(access(LOAD, 0), access(STORE, 0), counter=None) == [(0, 1, 0)]


def test_different_strides_cannot_be_told_apart() -> None:
    p = Programs()
    row = p.access("x", (64, 64), "f32", (0, 0))
    other = Op(0, STORE, (), (), (), 1, "", row)
    assert edges(access(LOAD, 64, 0), other, counter=None) == [(0, 1, 0)]
