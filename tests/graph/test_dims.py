"""Dimension classes follow the data, and only those that may be split are parallel."""

from __future__ import annotations

import pytest

from tests.tile_programs import Programs, attention, gemm
from twill.graph.build import dependence_graph
from twill.graph.dependence import Dim
from twill.graph.dims import groups
from twill.tile.program import TileProgram


def dims(program: TileProgram) -> dict[str, Dim]:
    graph = dependence_graph(program)
    assert [dim.id for dim in graph.dims] == list(range(len(graph.dims)))
    return {dim.name: dim for dim in graph.dims}


def test_roles_in_the_first_product_name_the_dimensions() -> None:
    assert {name: d.size for name, d in dims(gemm()).items()} == {"m": 128, "n": 128, "k": 64}
    assert {name: d.size for name, d in dims(attention()).items()} == {"m": 128, "n": 128, "k": 64, "d": 64}


def test_contracted_and_reduced_dimensions_are_not_parallel() -> None:
    assert {name for name, d in dims(attention()).items() if d.parallel} == {"m", "d"}


def test_a_scan_makes_its_dimension_sequential() -> None:
    p = Programs()
    x = p.load("x", (32, 64), "f32")
    p.store("y", p.op("scan", x, axis=1, combine="add", reverse=0))
    assert {(d.size, d.parallel) for d in dims(p.done()).values()} == {(32, True), (64, False)}


def test_a_tile_added_to_its_transpose_has_one_dimension_that_cannot_be_split() -> None:
    p = Programs()
    x = p.load("x", (64, 64), "f32")
    p.store("y", p.op("add", x, p.op("transpose", x, order=(1, 0))))
    assert [(d.size, d.parallel) for d in dims(p.done()).values()] == [(64, False)]


def test_a_reshape_that_splits_an_axis_spoils_only_that_axis() -> None:
    p = Programs()
    x = p.load("x", (32, 64), "f32")
    p.store("y", p.op("reshape", x, shape=(32, 2, 32)))
    found = [(d.size, d.parallel) for d in dims(p.done()).values()]
    assert found == [(32, True), (64, False), (2, False), (32, False)]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((32, 64), (32, 1, 64), [([0], [0]), ([1], [2])]),
        ((32, 64), (2048,), [([0, 1], [0])]),
        ((8, 4, 16), (8, 2, 32), [([0], [0]), ([1, 2], [1, 2])]),
        ((1, 1), (1,), []),
    ],
)
def test_axes_of_a_reshape_are_grouped_by_extent(
    left: tuple[int, ...], right: tuple[int, ...], expected: list[tuple[list[int], list[int]]]
) -> None:
    assert list(groups(left, right)) == expected


def backward(combine: str = "add", *, read_back: bool = False, square: bool = False) -> TileProgram:
    """dq += ds k over blocks of n, reduced into memory each iteration; dk[n,d] is kept."""
    p = Programs()
    k = p.load("K", (64, 128), name="k")
    zeros = p.constant(0.0, (64, 128), "f32")
    with p.loop(p.argument("trips"), [zeros]) as m:
        q = p.load("Q", (32, 128), at=(m.i * 32, 0), name="q")
        s = p.dot(q, p.op("transpose", k, shape=(128, 64), order=(1, 0)), name="s")
        ds = p.op("cast", s, element="f16", name="ds")
        dq = p.dot(ds, k, name="dq")
        dq = p.op("mul", dq, dq if square else p.constant(0.5, (32, 128), "f32"))
        p.store("dQ", dq, at=(m.i * 32, 0), combine=combine)
        if read_back:
            p.store("copy", p.load("dQ", (32, 128), "f32", at=(m.i * 32, 0)), at=(m.i * 32, 0))
        m.yields = [p.dot(p.op("transpose", ds, shape=(64, 32), order=(1, 0)), q, m.carried[0], name="dk")]
    p.store("dK", m.results[0])
    return p.done()


def test_a_sum_that_only_adds_to_memory_leaves_its_dimension_parallel() -> None:
    found = dims(backward())
    assert found["n"].parallel and found["n"].size == 64
    assert not found["m"].parallel  # dk sums over it and keeps the sum


def test_a_sum_that_goes_elsewhere_makes_its_dimension_sequential() -> None:
    assert not dims(backward(combine="max"))["n"].parallel
    assert not dims(backward(read_back=True))["n"].parallel
    assert not dims(backward(square=True))["n"].parallel


def two_loops(meeting: bool) -> TileProgram:
    """Products of one tensor's rows in a first loop, and of another's in a second. meeting: a tile is made of the sums
    of both along rows and columns."""
    p = Programs()
    trips, zeros = p.argument("trips"), p.constant(0.0, (128, 64), "f32")
    made: list[int] = []
    for left, right in (("A", "B"), ("C", "D")):
        with p.loop(trips, [zeros]) as k:
            a, b = p.load(left, (128, 32), at=(0, k.i * 32)), p.load(right, (32, 64), at=(k.i * 32, 0))
            k.yields = [p.dot(a, b, k.carried[0])]
        made += k.results
        p.store(f"{left}{right}", k.results[0], at=(0, 0))
    if meeting:
        first, second = (p.reduce(one, 1, "add") for one in made)
        p.store("E", p.op("add", p.column(first, 128), p.row(second, 128)), at=(0, 0))
    return p.done()


def test_rows_of_products_in_two_loops_are_one_dimension_unless_they_meet() -> None:
    """One cut gives each of two warp groups half of both loops."""
    assert sorted(name for name, d in dims(two_loops(False)).items() if d.size == 128) == ["m"]
    assert sorted(name for name, d in dims(two_loops(True)).items() if d.size == 128) == ["m", "m2"]
