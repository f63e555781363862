"""Promises of straight-line products: a loop of one constant iteration, which Triton inlines, is as right as any."""

from __future__ import annotations

from functools import cache

import pytest

from tests.conftest import ROOT
from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import trials, verify
from twill.codegen.warp.layout import Accumulator
from twill.codegen.warp.program import Advance, Compute, Copy, Fill, Multiply, Pipeline, WarpGroup, WarpProgram

FILE = str(ROOT / "tests" / "straight_kernels.py")
TILES = ("BLOCK_M=64", "BLOCK_N=64")


@cache
def attention(first: int, last: int) -> WarpProgram:
    sig = (*(f"{name}_desc=tensordesc<bf16[64, 64]>" for name in "qkvo"), "sm_scale=fp32:positive", "N_CTX=i32:16")
    program = extract(f"{FILE}::attention", sig=sig, const=(*TILES, f"FIRST={first}", f"LAST={last}")).program
    return lower(program, scheduled(program), H100)


@cache
def product(first: int) -> WarpProgram:
    sig = (*(f"{name}_desc=tensordesc<bf16[64, 64]>" for name in "abc"), "K=i32:16")
    program = extract(f"{FILE}::product", sig=sig, const=(*TILES, f"FIRST={first}")).program
    return lower(program, scheduled(program), H100)


def computing(program: WarpProgram) -> WarpGroup:
    return next(group for group in program.groups if any(isinstance(stmt, Multiply) for stmt in group.stmts))


@pytest.mark.parametrize(("first", "last"), [(1, 0), (0, 1), (1, 1)])
def test_a_block_of_keys_outside_of_the_loop_is_right(first: int, last: int) -> None:
    """The list scheduler gives the loop to several warp groups: what it begins with is there in each."""
    program = attention(first, last)
    outside = [stmt for stmt in computing(program).body if isinstance(stmt, Multiply)]
    assert len(outside) == 2 * (first + last)
    assert verify(program, given=trials(program)) == ()


@pytest.mark.parametrize("first", [1, 0])
def test_a_product_outside_of_the_loop_is_right(first: int) -> None:
    program = product(first)
    assert [isinstance(stmt, Multiply) for stmt in computing(program).body].count(True) == first
    assert verify(program, given=trials(program)) == ()


def test_a_vector_that_a_product_adds_to_is_spread_over_its_accumulator() -> None:
    group = computing(attention(1, 0))
    product = [stmt for stmt in group.body if isinstance(stmt, Multiply)][1]
    assert isinstance(group.fragment(product.accumulator).layout, Accumulator)
    before = group.body[: group.body.index(product)]
    start = next(s for s in before if isinstance(s, Compute | Copy | Fill) and s.result == product.accumulator)
    assert isinstance(start, Compute) and start.kind == "cast"


def test_straight_line_loads_share_the_ring_of_the_loop_behind_them() -> None:
    program = product(1)
    assert len(program.arefs) == 2 == len(product(0).arefs)
    assert all(aref.depth >= 2 for aref in program.arefs)
    group = computing(program)
    loop = next(at for at, stmt in enumerate(group.body) if isinstance(stmt, Pipeline))
    moved = {stmt.cursor for stmt in group.body[:loop] if isinstance(stmt, Advance)}
    assert moved == {cursor.id for cursor in group.cursors}


def test_loads_behind_the_loop_have_rings_of_their_own() -> None:
    assert len(attention(0, 1).arefs) > len(attention(0, 0).arefs)
