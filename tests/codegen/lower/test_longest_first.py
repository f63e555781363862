"""Promises of `twill.codegen.lower.longest_first`: nothing is left out, long instances come first, CTAs get alike."""

from __future__ import annotations

import pytest

from tests.instance_orders import ordered, rank
from tests.kernels import H100
from tests.lowered import planned
from tests.tile_programs import Programs, gemm
from twill.codegen.lower.longest_first import (
    LongestFirst,
    all_trips,
    cached,
    growth,
    longest_first,
    terms,
)
from twill.codegen.warp.expression import (
    Apply,
    Expr,
    Lookup,
    Number,
    NumPrograms,
    ProgramId,
    Symbol,
    add,
    multiply,
    subtract,
)
from twill.codegen.warp.scheduling import evenly
from twill.tile.affine import Polynomial
from twill.tile.interpret.sequential import instances
from twill.tile.program import TileProgram

GROWS = LongestFirst(0, True, Number(0), 1, 64, 132)


def triangle() -> TileProgram:
    """Row block i of C is A times as much of B as there are rows before its end; one C for each index of axis 1."""
    p = Programs()
    block, layer = p.op("program_id", axis=0), p.op("program_id", axis=1)
    upper = p.op("add", p.op("mul", block, p.constant(64)), p.constant(64))
    row = Polynomial.symbol(block) * 64
    with p.loop(upper, [p.constant(0.0, (64, 64), "f32")], step=64) as k:
        a = p.load("A", (64, 64), at=(row, k.i), name="a")
        b = p.load("B", (64, 64), at=(k.i, 0), name="b")
        k.yields = [p.dot(a, b, k.carried[0], name="acc")]
    at = (Polynomial.symbol(layer) * 640 + row, 0)
    p.store("C", p.op("cast", k.results[0], element="f16", name="c"), at=at)
    return p.done()


def test_trip_counts_that_grow_along_an_axis_give_an_order() -> None:
    found = longest_first(planned(triangle()).plan)
    assert found is not None
    assert (found.axis, found.grows) == (0, True)
    assert H100.l2 is not None and found.cached == cached(H100) == int(H100.l2.value * 2 / 3)
    assert (found.most, found.ctas) == (33, 132)


@pytest.mark.parametrize("combine", ["", "add"])
def test_what_an_iteration_adds_to_in_memory_takes_room_in_the_cache_and_what_it_stores_does_not(combine: str) -> None:
    p = Programs()
    row = Polynomial.symbol(p.op("program_id", axis=0)) * 64
    with p.loop(p.constant(256), [p.constant(0.0, (64, 64), "f32")], step=64) as k:
        a = p.load("A", (64, 64), at=(row, k.i), name="a")
        p.store("D", a, at=(row, k.i), combine=combine)
        k.yields = [p.op("add", k.carried[0], p.op("cast", a, element="f32"), name="acc")]
    p.store("C", k.results[0], at=(row, 0))
    ((_, size),) = all_trips(planned(p.done()).plan)
    assert size == 64 * 64 * 2 * (2 if combine else 1)


def test_without_a_described_cache_all_instances_are_walked_together() -> None:
    assert cached(H100.model_copy(update={"l2": None})) == 2**32 - 1


def test_equal_trip_counts_keep_the_order_of_the_grid() -> None:
    assert longest_first(planned(gemm()).plan) is None


def test_bands_are_as_wide_as_one_another() -> None:
    assert [evenly(64, most) for most in (100, 64, 56, 30, 10, 7, 3, 1, 0)] == [64, 64, 32, 22, 8, 6, 2, 1, 1]
    assert all(
        2 * ((count - 1) % evenly(count, most) + 1) >= evenly(count, most)
        for count in range(1, 70)
        for most in (5, 10, 24)
    )


@pytest.mark.parametrize("blocks, together", [(8, 64), (16, 32), (32, 16), (64, 8), (128, 4)])
def test_ctas_get_nearly_the_same(blocks: int, together: int) -> None:
    def most(indices: list[tuple[int, int, int]], order: bool) -> float:
        loads = [0] * 132
        for i in range(len(indices)):
            block = indices[rank(i, 132, len(indices)) if order else i][0]
            loads[i % 132] += block + 2  # one iteration for what is around the loop
        return max(loads) / (sum(loads) / 132)

    now = most(list(ordered((blocks, 64), GROWS, together)), True)
    assert now < 1.05
    assert now < most(list(instances((blocks, 64))), False)


@pytest.mark.parametrize(("together", "most"), [(5, 1.04), (16, 1.02)])
def test_rounds_of_long_instances_are_as_long_as_one_another(together: int, most: float) -> None:
    """1024 queries of 32 heads that see 16384 keys: the cache holds five heads, a round of CTAs takes sixteen. CTAs
    take the next instance when they are done."""
    ends = [0] * 132
    for block, *_ in ordered((8, 32), GROWS, together):
        cta = ends.index(min(ends))
        ends[cta] += 121 + block
    longest = max(ends) / (2 * 124.5)
    assert longest < most and (together == 16 or longest > 1.02)


def _times(value: Expr, factor: int) -> Expr:
    return multiply(value, Number(factor))


START = _times(ProgramId(0), 128)


def _looked_up(axis: int) -> Expr:
    return Lookup("LENGTHS", Apply("cast", (ProgramId(axis),), "i64"), "i32")


@pytest.mark.parametrize(
    "expr, way",
    [
        (START, 1),
        (_times(START, -1), -1),
        (subtract(add(START, Number(128)), START), 0),
        (Apply("div", (add(START, Number(127)), Number(128)), "i32"), 1),
        (Apply("max", (subtract(START, Number(1023)), Number(0)), "i32"), 1),
        (subtract(Symbol(0, "N", "i32"), START), -1),
        (add(START, ProgramId(1)), 1),
        (subtract(START, Apply("max", (START, Number(0)), "i32")), None),
        (Apply("rem", (START, Number(3)), "i32"), None),
        (Apply("div", (START, Symbol(0, "N", "i32")), "i32"), None),
        (NumPrograms(0), 0),
        (Apply("min", (START, _looked_up(1)), "i32"), 1),
        (add(START, _looked_up(0)), None),
    ],
)
def test_which_way_an_expression_goes(expr: Expr, way: int | None) -> None:
    assert growth([(expr, 1)], 0) == way


WHOLE = _times(Apply("div", (_times(ProgramId(0), 192), Number(80)), "i32"), 80)  # rows in whole blocks of 80
END = Apply("min", (add(_times(ProgramId(0), 192), Number(192)), Symbol(0, "N", "i32")), "i32")


def _trip(begin: Expr, end: Expr) -> Expr:
    return Apply("div", (add(subtract(end, begin), Number(79)), Number(80)), "i32")


@pytest.mark.parametrize("sizes, way", [((1, 1), 1), ((3, 2), 1), ((1, 2), None)])
def test_loops_that_follow_each_other_are_as_long_as_their_sum(sizes: tuple[int, int], way: int | None) -> None:
    masked = _trip(WHOLE, END)  # three or four iterations: no growth of its own
    assert growth([(masked, 1)], 0) is None
    assert growth([(_trip(Number(0), WHOLE), sizes[0]), (masked, sizes[1])], 0) == way


def test_loops_that_became_one_grow_as_they_end() -> None:
    """They begin at 0, or where the first of them ends if that is less."""
    begin = Apply("min", (Number(0), add(WHOLE, Symbol(1, "behind", "i32"))), "i32")
    assert growth([(_trip(begin, END), 1)], 0) == 1


def test_the_sum_of_a_division_s_parts_is_that_of_the_whole() -> None:
    split = add(_trip(Number(0), WHOLE), _trip(WHOLE, END))
    assert terms(split) == terms(_trip(Number(0), END))


def test_what_cancels_is_no_term() -> None:
    assert terms(subtract(_times(START, 2), _times(ProgramId(0), 256))) == {}
