"""An accumulator is overwritten only after everybody has read it."""

from __future__ import annotations

from twill.graph.dependence import Edge, NodeKind, Tile
from twill.graph.inplace import anti_edges

TILE = Tile(shape=(64, 64), dims=(0, 1), dtype="f32")
ROW = Tile(shape=(64,), dims=(0,), dtype="f32")


def value(src: int, dst: int, distance: int = 0, operand: str = "in") -> Edge:
    return Edge(src=src, dst=dst, distance=distance, kind="value", operand=operand)


def anti(kinds: list[NodeKind], *edges: Edge, tiles: dict[int, Tile] | None = None) -> list[tuple[int, int, int]]:
    found = anti_edges(dict(enumerate(kinds)), {i: (tiles or {}).get(i, TILE) for i in range(len(kinds))}, edges)
    assert all(edge.kind == "anti" for edge in found)
    return [(e.src, e.dst, e.distance) for e in found]


def test_an_accumulator_that_nobody_else_reads_needs_no_order() -> None:
    assert anti(["mma"], value(0, 0, 1, "c")) == []


def test_a_reader_of_the_old_accumulator_comes_before_the_product() -> None:
    assert anti(["elementwise", "mma"], value(1, 1, 1, "c"), value(1, 0, 1)) == [(0, 1, 0)]


def test_a_reader_of_the_new_accumulator_comes_before_the_next_product() -> None:
    assert anti(["mma", "elementwise"], value(0, 0, 1, "c"), value(0, 1)) == [(1, 0, 1)]


def test_a_rescaled_accumulator_is_overwritten_by_the_rescaling() -> None:
    kinds: list[NodeKind] = ["elementwise", "mma", "elementwise"]
    edges = [value(1, 0, 1), value(0, 1, 0, "c"), value(1, 2, 1)]
    assert anti(kinds, *edges) == [(2, 0, 0)]


def test_a_rescaling_that_others_read_keeps_a_tile_of_its_own() -> None:
    kinds: list[NodeKind] = ["elementwise", "mma", "elementwise"]
    edges = [value(1, 0, 1), value(0, 1, 0, "c"), value(0, 2), value(1, 2)]
    assert anti(kinds, *edges) == []


def test_a_reduction_of_the_accumulator_is_no_rescaling() -> None:
    edges = [value(1, 0, 1), value(0, 1, 0, "c"), value(1, 2)]
    assert anti(["elementwise", "mma", "elementwise"], *edges, tiles={0: ROW}) == []


def test_a_reader_that_also_needs_the_new_accumulator_makes_updating_in_place_impossible() -> None:
    edges = [value(0, 0, 1, "c"), value(0, 1, 1), value(0, 1)]
    assert anti(["mma", "elementwise"], *edges) == []


def test_a_reader_from_two_iterations_back_makes_updating_in_place_impossible() -> None:
    assert anti(["mma", "elementwise"], value(0, 0, 1, "c"), value(0, 1, 2)) == []


def test_a_product_that_reads_its_accumulator_as_an_operand_does_not_update_in_place() -> None:
    assert anti(["mma", "elementwise"], value(0, 0, 1, "c"), value(0, 0, 1, "a"), value(0, 1)) == []
