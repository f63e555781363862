"""Promises of `twill.tile.rewrite.integer_products`: products of int8 are again such where the tensor core has them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tile_programs import Programs
from twill.tile.interpret.sequential import run
from twill.tile.program import Op, TileProgram
from twill.tile.rewrite.integer_products import whole_integers
from twill.tile.rewrite.precision import split_mmas

M, N, K, STEPS = 64, 64, 64, 3


def summed(
    begin: float = 0, depth: int = K, *, computed: bool = False, along: bool = True, added: bool = False,
    watched: bool = False, last: bool = False,
) -> TileProgram:  # fmt: skip
    """D = begin + A B over three tiles. computed: A is twice what memory has. along: B lies along K. added: the sum of
    the loop grows by 1 in each iteration, too. watched: the sum so far is stored in each iteration. last: the loop
    carries the product of its last iteration, too."""
    p = Programs()
    for name, kind in (("A", "i8"), ("B", "i8"), ("C", "i32"), ("D", "i32")):
        p.argument(name, f"ptr:{kind}")
    total = p.constant(begin, (M, N), "i32")
    with p.loop(p.constant(STEPS), [total, total] if last else [total]) as loop:
        a = p.load("A", (M, depth), "i8")
        if computed:
            a = p.op("add", a, a, name="twice")
        b = p.load("B", (N, depth) if along else (depth, N), "i8")
        if along:
            b = p.op("transpose", b, shape=(depth, N), order=(1, 0))
        operands = (a, b) if last else (a, b, loop.carried[0])
        one = made = p.op("dot", *operands, shape=(M, N), element="i32", name="c", precision="ieee", imprecise=0)
        if last:
            made = p.op("add", loop.carried[0], one)
        if added:
            made = p.op("add", made, p.constant(1, (M, N), "i32"))
        if watched:
            p.store("C", made)
        loop.yields = [made, one] if last else [made]
    p.store("D", loop.results[0])
    if last:
        p.store("C", loop.results[1])
    return p.done()


def products(program: TileProgram) -> list[Op]:
    return [op for op in program.ops() if op.kind == "dot"]


def result(program: TileProgram) -> np.ndarray:
    """D as the program computes it."""
    random = np.random.default_rng(0)
    data = {name: random.integers(-128, 128, 64 * 1024).astype(np.int8) for name in "AB"}
    data |= {name: np.zeros(64 * 1024, np.int32) for name in "CD"}
    run(program, (1,), data, {})
    return np.asarray(data["D"])


def test_a_sum_of_products_of_int8_is_one_accumulator() -> None:
    written = summed()
    split = split_mmas(written)
    whole = whole_integers(split, 32)
    (of_floats,), (of_integers,) = products(split), products(whole)
    assert [split.type_of(value).element for value in of_floats.operands] == ["bf16", "bf16"]
    assert [whole.type_of(value).element for value in of_integers.operands] == ["i8", "i8", "i32"]
    assert not any(op.kind in ("cast", "add") for op in whole.ops())
    assert np.array_equal(result(whole), result(written)) and np.array_equal(result(split), result(written))


ADDED_BY_THREADS = {
    "the sum begins with something": summed(7),
    "the sum is of something else, too": summed(added=True),
    "the sum is read in its loop": summed(watched=True),
    "the last product is read behind the loop": summed(last=True),
}


@pytest.mark.parametrize("name", ADDED_BY_THREADS)
def test_other_sums_are_those_of_threads(name: str) -> None:
    written = ADDED_BY_THREADS[name]
    whole = whole_integers(split_mmas(written), 32)
    (product,) = products(whole)
    assert [whole.type_of(value).element for value in product.operands] == ["i8", "i8"]
    assert np.array_equal(result(whole), result(written))


OTHERS = {
    "a tile is computed": summed(computed=True),
    "a tile lies across K": summed(along=False),
    "a tile has half of an instruction's K": summed(depth=16),
}


@pytest.mark.parametrize("name", OTHERS)
def test_products_of_other_tiles_stay_those_of_bf16(name: str) -> None:
    split = split_mmas(OTHERS[name])
    assert len(products(split)) == 1 and whole_integers(split, 32) is split
