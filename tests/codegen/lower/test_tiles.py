"""Promises of `twill.codegen.lower.tiles`: shapes of row blocks, how tiles lie in registers, what views show."""

from __future__ import annotations

import pytest

from tests.kernels import H100
from tests.tile_programs import Programs, attention, gemm
from twill import exc
from twill.codegen.lower.tiles import TileLayouts, View
from twill.codegen.targets.base import target_of
from twill.codegen.warp.layout import Accumulator, Along, Blocked, Slice, Uniform, runs
from twill.graph.build import wire
from twill.tile.program import TileProgram


def made_by(tiles: TileLayouts, name: str, kind: str = "") -> int:
    """The cell that the last step of that name (and operation) makes."""
    found = [s for s in tiles.flat.steps if s.op.name == name and kind in ("", s.op.kind)]
    return found[-1].results[0]


def whole(program: TileProgram) -> TileLayouts:
    return TileLayouts(wire(program), target_of(H100), -1, 1)


def split(program: TileProgram, name: str, axis: int, parts: int) -> TileLayouts:
    """Cut along an axis of a named result."""
    wired = wire(program)
    cut = wired.classes.of[made_by(TileLayouts(wired, target_of(H100), -1, 1), name)][axis]
    return TileLayouts(wired, target_of(H100), cut, parts)


# -- row blocks ---------------------------------------------------------------------------------


def test_tiles_are_cut_along_one_dimension() -> None:
    tiles = split(gemm(), "acc", 0, 2)
    assert [tiles.shape(made_by(tiles, name)) for name in ("a", "b", "acc", "c")] == [
        (64, 64), (64, 128), (64, 128), (64, 128),
    ]  # fmt: skip
    assert [tiles.is_split(made_by(tiles, name)) for name in ("a", "b")] == [True, False]


def test_nothing_is_cut_without_a_dimension() -> None:
    tiles = whole(gemm())
    assert tiles.shape(made_by(tiles, "a")) == (128, 64)
    assert not tiles.is_split(made_by(tiles, "a"))


def test_queries_are_cut_and_keys_are_not() -> None:
    """They have one extent, and even one `range` of offsets, but are two dimensions."""
    tiles = split(attention(), "q", 0, 2)
    assert [tiles.shape(made_by(tiles, n)) for n in ("q", "k", "qk", "m_ij")] == [
        (64, 64), (128, 64), (64, 128), (64,),
    ]  # fmt: skip


# -- layouts ------------------------------------------------------------------------------------


def test_matrices_lie_as_the_tensor_core_wants() -> None:
    tiles = split(attention(), "q", 0, 2)
    assert tiles.layout(made_by(tiles, "qk")) == Accumulator(64, 128)
    assert tiles.layout(made_by(tiles, "acc")) == Accumulator(64, 64)


def test_what_a_reduction_leaves_lies_along_rows_and_so_does_all_that_meets_it() -> None:
    tiles = split(attention(), "q", 0, 2)
    for name in ("m_ij", "alpha", "l_i", "lse"):
        assert tiles.layout(made_by(tiles, name)) == Along(Accumulator(64, 8), 1)


def test_column_offsets_lie_along_columns() -> None:
    tiles = whole(attention(causal=True))
    layouts = {tiles.layout(s.results[0]) for s in tiles.flat.steps if s.op.kind == "range"}
    assert layouts == {Along(Accumulator(128, 8), 1), Along(Accumulator(64, 128), 0)}


def test_without_products_everything_is_blocked() -> None:
    p = Programs()
    x = p.load("x", (1024,), "f32")
    p.store("y", p.op("mul", x, x, name="square"))
    tiles = whole(p.done())
    assert tiles.layout(made_by(tiles, "square")) == Blocked((1024,), 8)


def test_a_number_is_uniform_and_extents_of_one_are_dropped() -> None:
    p = Programs()
    x = p.load("x", (1, 1024), "f32", name="x")
    p.store("y", p.reduce(x, 1, "add", name="sum"))
    tiles = whole(p.done())
    assert tiles.layout(made_by(tiles, "sum")) == Uniform()
    assert (tiles.core(made_by(tiles, "x")), tiles.core_axes(made_by(tiles, "x"))) == ((1024,), (1,))


def test_a_vector_with_two_sides_lies_as_its_first_use_wants() -> None:
    p = Programs()
    a, b = p.load("a", (128, 64)), p.load("b", (64, 128))
    mma = p.dot(a, b)
    v = p.load("v", (128,), "f32", name="v")
    p.op("add", mma, p.column(v, 128), name="first")
    p.store("y", p.op("add", mma, p.row(v, 128), name="second"))
    tiles = whole(p.done())
    assert tiles.layout(made_by(tiles, "v")) == Along(Accumulator(128, 8), 1)


@pytest.mark.parametrize("rows", [16, 32, 48])
def test_matrices_of_few_rows_beside_products_are_spread_as_results_of_products(rows: int) -> None:
    p = Programs()
    p.store("c", p.dot(p.load("a", (64, 64)), p.load("b", (64, 64))))
    x = p.load("x", (rows, 64), "f32")
    p.store("y", p.op("add", x, x, name="few"), at=(0, 0))
    tiles = whole(p.done())
    assert tiles.layout(made_by(tiles, "few")) == Accumulator(rows, 64)


@pytest.mark.parametrize("shape", [(96, 64), (64, 4)])
def test_matrices_that_the_tensor_core_does_not_hold_are_blocked(shape: tuple[int, int]) -> None:
    p = Programs()
    p.store("c", p.dot(p.load("a", (64, 64)), p.load("b", (64, 64))))
    x = p.load("x", shape, "f32")
    p.store("y", p.op("add", x, x, name="odd"), at=(0, 0))
    tiles = whole(p.done())
    assert tiles.layout(made_by(tiles, "odd")) == runs(shape)


def test_a_vector_beside_a_blocked_matrix_is_one_of_its_slices() -> None:
    p = Programs()
    x, v = p.load("x", (16, 64), "f32"), p.load("v", (64,), "f32", name="v")
    p.store("y", p.op("add", x, p.row(v, 16)))
    tiles = whole(p.done())
    assert tiles.layout(made_by(tiles, "v")) == Slice(runs((16, 64)), 0)


def test_tiles_of_three_dimensions_are_blocked() -> None:
    p = Programs()
    x = p.constant(1.0, (4, 8, 16), "f32")
    p.store("y", p.op("add", x, p.load("x", (4, 8, 16), "f32"), name="cube"), at=(0, 0, 0))
    tiles = whole(p.done())
    assert tiles.layout(made_by(tiles, "cube")) == Blocked((4, 8, 16), 4)


# -- views --------------------------------------------------------------------------------------


def seen(p: Programs, shown: int) -> tuple[TileLayouts, View, int]:
    """The view of a value that is stored, and its cell."""
    p.store("y", p.op("neg", shown, name="read"), at=(0, 0))
    tiles = whole(p.done())
    cell = next(s.operands[0] for s in tiles.flat.steps if s.op.name == "read")
    return tiles, tiles.view(cell), cell


def test_a_transpose_exchanges_axes() -> None:
    p = Programs()
    x = p.load("x", (16, 32), "f32", name="x")
    tiles, view, cell = seen(p, p.op("transpose", x, shape=(32, 16), order=(1, 0)))
    assert view == View(made_by(tiles, "x"), (1, 0))
    assert tiles.core_map(view, cell) == (1, 0)


def test_a_transpose_of_a_transpose_is_none() -> None:
    p = Programs()
    x = p.load("x", (16, 32), "f32", name="x")
    turned = p.op("transpose", x, shape=(32, 16), order=(1, 0))
    tiles, view, _ = seen(p, p.op("transpose", turned, shape=(16, 32), order=(1, 0)))
    assert view == View(made_by(tiles, "x"), (0, 1))


@pytest.mark.parametrize(("side", "axes"), [("column", (0, -1)), ("row", (-1, 0))])
def test_a_vector_repeats_along_the_axis_that_it_lacks(side: str, axes: tuple[int, int]) -> None:
    p = Programs()
    v = p.load("v", (32,), "f32", name="v")
    tiles, view, cell = seen(p, getattr(p, side)(v, 32))
    assert view == View(made_by(tiles, "v"), axes)
    assert tiles.core_map(view, cell) == axes


def test_reshapes_add_and_drop_axes_of_one() -> None:
    p = Programs()
    x = p.load("x", (16, 1, 32), "f32", name="x")
    tiles, view, cell = seen(p, p.op("reshape", x, shape=(16, 32)))
    assert view == View(made_by(tiles, "x"), (0, 2))
    assert tiles.core_map(view, cell) == (0, 1)


def test_reshapes_across_axes_are_refused() -> None:
    p = Programs()
    x = p.load("x", (16, 32), "f32", name="x")
    with pytest.raises(exc.UnsupportedInKernel, match="reshaped across its axes") as raised:
        seen(p, p.op("reshape", x, shape=(32, 16), name="folded"))
    assert "extent 1" in raised.value.hint


def test_a_sum_along_an_axis_of_one_element_tells_no_rows_from_columns() -> None:
    """Beside a product, where other sums of matrices do."""
    p = Programs()
    p.argument("A", "ptr:bf16"), p.argument("B", "ptr:bf16"), p.argument("X", "ptr:f32"), p.argument("C", "ptr:f32")
    a, b = p.load("A", (64, 64), "bf16", name="a"), p.load("B", (64, 128), "bf16", name="b")
    zero = p.constant(0.0, (64, 128), "f32")
    x = p.load("X", (1, 64, 128), "f32", name="x")
    same = p.op("reduce", x, shape=(64, 128), axis=0, combine="add", name="same")
    p.store("C", p.op("add", p.op("dot", a, b, zero), same))
    tiles = whole(p.done())
    assert tiles.core(made_by(tiles, "same")) == tiles.core(made_by(tiles, "x")) == (64, 128)
