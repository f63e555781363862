"""Promises of products of 8-bit operands in the order of a result: only that order, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tile.rewrite.test_precision import products, result, tensors
from tests.tile_programs import Programs
from twill.tile.digits import digits_of
from twill.tile.operand_order import QUADS, columns_in_order
from twill.tile.program import TileProgram
from twill.tile.rewrite.operand_order import multiply_in_quads
from twill.tile.rewrite.precision import split_mmas

M, N, K = 64, 64, 64


def product(order: np.ndarray | None, twice: bool = False) -> TileProgram:
    """D = f8(A) B^T, the columns of A in an order. twice: the cast is read by something else, too."""
    p = Programs()
    for name, kind in (("A", "f32"), ("B", "f8e4m3"), ("C", "f32"), ("D", "f32")):
        p.argument(name, f"ptr:{kind}")
    a = p.op("cast", p.load("A", (M, K), "f32"), element="f8e4m3", name="a")
    if order is not None:
        found = digits_of(np.arange(M * K).reshape(M, K)[:, order])
        assert found is not None
        first, extents, steps = found
        moved = p.op("rearrange", a, shape=(M, K), name="moved", first=first, extents=extents, steps=steps)
    else:
        moved = a
    b = p.op("transpose", p.load("B", (N, K), "f8e4m3"), shape=(K, N), order=(1, 0))
    made = p.op("dot", moved, b, shape=(M, N), element="f32", name="c", precision="tf32", imprecise=1 << 30)
    if twice:
        made = p.op("add", made, p.op("cast", a, element="f32"))
    p.store("D", made)
    return p.done()


def test_the_order_is_that_of_the_lanes_of_a_row() -> None:
    assert columns_in_order(32).tolist()[:16] == [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15]
    assert columns_in_order(32).tolist()[16:] == [16 + c for c in columns_in_order(16)]


def test_a_product_in_that_order_moves_nothing_and_is_the_same() -> None:
    program = split_mmas(product(columns_in_order(K)))
    made = multiply_in_quads(program)
    assert [dict(op.attributes).get(QUADS) for op in products(made)] == [1]
    assert not any(op.kind == "rearrange" for op in made.ops())
    data = tensors(program)
    assert np.array_equal(result(made, data), result(program, data))


@pytest.mark.parametrize("order", [None, np.arange(K).reshape(-1, 4, 4).transpose(0, 2, 1).reshape(-1)])
def test_any_other_order_stays(order: np.ndarray | None) -> None:
    program = product(order)
    assert multiply_in_quads(program) is program


def test_what_is_read_by_more_than_the_product_stays() -> None:
    program = product(columns_in_order(K), twice=True)
    assert multiply_in_quads(program) is program


def test_a_target_that_has_no_computed_operands_of_8_bits_multiplies_f16() -> None:
    for order in (None, columns_in_order(K)):
        program = split_mmas(product(order))
        made = split_mmas(program, computed=False)
        assert [made.type_of(op.operands[0]).element for op in products(made)] == ["f16"]
        assert split_mmas(made, computed=False) is made
        assert np.allclose(result(made, data := tensors(program)), result(program, data), rtol=0, atol=1e-4)


def test_an_operand_that_floats_are_cast_to_is_multiplied_in_8_bits() -> None:
    """Unless something else reads it: then both operands are f16, as those of other computed tiles."""
    for twice, element in ((False, "f8e4m3"), (True, "f16")):
        made = split_mmas(product(None, twice))
        assert [made.type_of(op.operands[0]).element for op in products(made)] == [element]
