"""Promises of `twill.codegen.passes.hoist_vectors`: work on matrices comes together, and every value is what it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twill.codegen.passes.hoist_vectors import hoist_vectors
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import Accumulator, Along, Layout
from twill.codegen.warp.program import Compute, Copy, Fill, If, Pipeline, Range, Reduce, Reg, Stmt, Sync

MATRICES, VECTORS = range(3), range(3, 7)
MATRIX = Accumulator(64, 64)
LAYOUTS: dict[int, Layout] = {**dict.fromkeys(MATRICES, MATRIX), **dict.fromkeys(VECTORS, Along(MATRIX, 1))}


def compute(result: int, *operands: int) -> Compute:
    return Compute("add", tuple(Reg(operand) for operand in operands), result)


@st.composite
def statements(draw: st.DrawFn) -> Stmt:
    """Elementwise work on matrices and vectors; matrices may read vectors, as the other way round for reductions."""
    result = draw(st.sampled_from([*MATRICES, *VECTORS]))
    operand = st.sampled_from([*MATRICES, *VECTORS] if result in MATRICES else list(VECTORS))
    kind = draw(st.sampled_from(("compute", "copy", "fill", "reduce", "sync")))
    match kind:
        case "copy":
            return Copy(draw(operand), result)
        case "fill":
            return Fill(result, Number(draw(st.integers(0, 9))))
        case "reduce":
            return Reduce(draw(st.sampled_from(list(MATRICES))), draw(st.sampled_from(list(VECTORS))), 1, "add")
        case "sync":
            return Sync(0)
        case _:
            return compute(result, draw(operand), draw(operand))


def values(stmts: tuple[Stmt, ...]) -> dict[int, object]:
    """What every fragment holds at the end, as the terms that made it."""
    held: dict[int, object] = {number: f"start {number}" for number in LAYOUTS}
    for stmt in stmts:
        match stmt:
            case Compute(kind, operands, result):
                held[result] = (kind, *(held[o.fragment] for o in operands if isinstance(o, Reg)))
            case Copy(source, result):
                held[result] = held[source]
            case Fill(result, value):
                held[result] = value
            case Reduce(operand, result):
                held[result] = ("reduce", held[operand])
    return held


@settings(max_examples=150)
@given(st.lists(statements(), max_size=10))
def test_every_value_is_what_it_was(made: list[Stmt]) -> None:
    gathered = hoist_vectors(made, LAYOUTS)
    assert values(gathered) == values(tuple(made))
    assert sorted(map(repr, gathered)) == sorted(map(repr, made))


@settings(max_examples=60)
@given(st.lists(statements(), max_size=10))
def test_only_vectors_move(made: list[Stmt]) -> None:
    still = [s for s in made if not isinstance(s, Compute | Copy | Fill) or s.result in MATRICES]
    assert [s for s in hoist_vectors(made, LAYOUTS) if any(s is other for other in still)] == still


def test_a_vector_between_two_steps_on_a_matrix_goes_in_front() -> None:
    first, vector, second = compute(0, 0, 3), compute(4, 5, 6), compute(0, 0, 4)
    assert hoist_vectors([first, vector, second], LAYOUTS) == (vector, first, second)


@pytest.mark.parametrize("vector", [compute(3, 4, 5), Copy(4, 3), Fill(3, Number(0))])
def test_not_if_the_matrix_reads_what_it_writes(vector: Stmt) -> None:
    stmts = (compute(0, 0, 3), vector)
    assert hoist_vectors(stmts, LAYOUTS) == stmts


def test_not_in_front_of_what_orders_or_reduces() -> None:
    stmts = (compute(0, 0, 3), Reduce(0, 4, 1, "add"), compute(5, 4, 4), Sync(0), Range(6, 0))
    assert hoist_vectors(stmts, LAYOUTS) == stmts


def test_blocks_inside_are_gathered_too() -> None:
    stmts, there = (compute(0, 0, 3), Copy(4, 5)), (Copy(4, 5), compute(0, 0, 3))
    loop = Pipeline("k", "k", Number(1), 1, (stmts,), stmts, (stmts,))
    (made, branch) = hoist_vectors([loop, If(Number(1), stmts)], LAYOUTS)
    assert isinstance(made, Pipeline) and isinstance(branch, If)
    assert (made.prologue, made.steady, made.epilogue, branch.body) == ((there,), there, (there,), there)
