"""Promises of `twill.codegen.lower.conversions`: a tile that two uses want spread differently is right in both."""

from __future__ import annotations

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import Programs
from twill.codegen.lower.conversions import fits, operand_layout, reduced_layout
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.targets.hopper import TARGET
from twill.codegen.verify.abstract_machine import trials, verify
from twill.codegen.warp.layout import Accumulator, Along, Blocked, Slice, Uniform, runs
from twill.codegen.warp.program import LoadShared, Multiply, Range, Sync, WarpProgram
from twill.tile.program import walk


def right(p: Programs) -> WarpProgram:
    """The program, lowered, found right by the abstract machine, and printed."""
    accesses = [op.access for op in walk(tuple(p.frames[0].items)) if op.access]
    for base, element in dict.fromkeys((access.base, access.element) for access in accesses):
        p.argument(base, f"ptr:{element}")
    program = p.done()
    lowered = lower(program, scheduled(program), H100)
    assert verify(lowered, given=trials(lowered)) == ()
    assert print_cuda(lowered, H100).text
    return lowered


def conversions(program: WarpProgram) -> int:
    """Loads from scratch memory that tiles go through from one layout into another."""
    scratch = {buffer.id for buffer in program.buffers if buffer.name.startswith("conversions")}
    stmts = [stmt for group in program.groups for stmt in group.stmts]
    return sum(isinstance(stmt, LoadShared) and stmt.source.buffer in scratch for stmt in stmts)


def test_a_loaded_vector_along_rows_and_columns_of_a_product_is_converted_once() -> None:
    p = Programs()
    mma = p.dot(p.load("a", (64, 64)), p.load("b", (64, 64)))
    g = p.load("g", (64,), "f32", name="g")
    p.store("y", p.op("mul", mma, p.op("sub", p.column(g, 64), p.row(g, 64))))
    program = right(p)
    assert conversions(program) == 1


def test_indices_along_rows_and_columns_are_counted_twice_and_not_converted() -> None:
    p = Programs()
    mma = p.dot(p.load("a", (64, 64)), p.load("b", (64, 64)))
    index = p.op("cast", p.op("range", shape=(64,), start=0, end=64), element="f32")
    p.store("y", p.op("mul", mma, p.op("sub", p.column(index, 64), p.row(index, 64))))
    program = right(p)
    assert conversions(program) == 0
    assert sum(isinstance(stmt, Range) for group in program.groups for stmt in group.stmts) >= 2


SHAPES = [(64, 32), (16, 16), (4, 64), (2, 128), (8, 8), (4, 1024)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_vectors_are_spread_over_matrices_without_products(shape: tuple[int, int]) -> None:
    p = Programs()
    x = p.load("x", shape, "f32")
    rows, columns = p.load("r", shape[:1], "f32"), p.load("c", shape[1:], "f32")
    p.store("y", p.op("mul", p.op("add", x, p.column(rows, shape[1])), p.row(columns, shape[0])))
    right(p)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_matrices_of_any_power_of_two_are_reduced_along_both_axes(shape: tuple[int, int], axis: int) -> None:
    p = Programs()
    x = p.load("x", shape, "f32")
    total = p.reduce(x, axis, "add")
    spread = p.column(total, shape[1]) if axis == 1 else p.row(total, shape[0])
    p.store("y", p.op("sub", x, spread))
    right(p)


def test_a_computed_matrix_is_transposed() -> None:
    p = Programs()
    mma = p.dot(p.load("a", (64, 64)), p.load("b", (64, 64)), name="m")
    p.store("y", p.op("add", mma, p.op("transpose", mma, order=(1, 0))))
    assert conversions(right(p)) == 1


def test_threads_wait_for_one_another_around_a_store_to_scratch_memory() -> None:
    p = Programs()
    mma = p.dot(p.load("a", (64, 64)), p.load("b", (64, 64)))
    p.store("y", p.op("add", mma, p.op("transpose", mma, order=(1, 0))))
    program = right(p)
    group = next(g for g in program.groups if any(isinstance(s, LoadShared) for s in g.stmts))
    body = list(group.stmts)
    load = next(at for at, stmt in enumerate(body) if isinstance(stmt, LoadShared))
    assert isinstance(body[load - 1], Sync) and isinstance(body[load - 3], Sync)


def test_an_operand_lies_as_its_use_wants() -> None:
    matrix, blocked = Accumulator(64, 32), runs((64, 32))
    assert operand_layout(matrix, (0, 1), TARGET) == matrix
    assert operand_layout(matrix, (0, -1), TARGET) == Along(Accumulator(64, 8), 1)
    assert operand_layout(blocked, (-1, 0), TARGET) == Slice(blocked, 0)
    assert operand_layout(Blocked((3, 40), 1), (-1, 0), TARGET) is None
    assert reduced_layout(blocked, 1, TARGET) == Slice(blocked, 1)
    assert reduced_layout(Slice(blocked, 1), 0, TARGET) == Uniform()


def test_what_lies_alike_register_by_register_is_not_moved() -> None:
    assert fits(Blocked((64, 32), 8), Blocked((2048,), 8))
    assert not fits(Blocked((64, 32), 8), Blocked((2048,), 4))
    assert fits(Along(Accumulator(64, 8), 1), Along(Accumulator(64, 32), 1))
    assert not fits(Along(Accumulator(64, 64), 1), Along(Accumulator(64, 64), 0))


@pytest.mark.parametrize(("rows", "columns", "depth"), [(16, 16, 16), (16, 64, 32), (32, 32, 64)])
def test_products_of_fewer_rows_than_an_instruction_has_are_padded(rows: int, columns: int, depth: int) -> None:
    p = Programs()
    trips = p.argument("trips")
    with p.loop(trips, [p.constant(0.0, (rows, columns), "f32")]) as k:
        a, b = p.load("a", (rows, depth), at=(0, k.i * depth)), p.load("b", (depth, columns), at=(k.i * depth, 0))
        k.yields = [p.dot(a, b, k.carried[0])]
    total = p.reduce(k.results[0], 0, "add")
    p.store("y", p.op("sub", k.results[0], p.row(total, rows)))
    p.store("z", p.reduce(k.results[0], 1, "max"))
    program = right(p)
    assert any(
        isinstance(stmt, Multiply) and isinstance(stmt.a, int) for group in program.groups for stmt in group.stmts
    )


def test_an_operand_of_a_small_product_is_transposed_on_its_way_into_registers() -> None:
    p = Programs()
    a = p.load("a", (32, 16))
    mma = p.dot(p.op("transpose", a, shape=(16, 32), order=(1, 0)), p.load("b", (32, 16)))
    p.store("y", p.dot(p.op("cast", mma, element="f16"), p.load("c", (16, 32))))
    right(p)
