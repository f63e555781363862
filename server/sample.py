"""The smallest graph that is worth a schedule: the example of the API's description, and what tests submit."""

from __future__ import annotations

from typing import Any

from twill.graph.dependence import Count, DependenceGraph, Dim, Edge, Node, Region, Tile
from twill.tile.trip import Trip


def vector_scale(size: int = 1024, kernel: str = "scale") -> DependenceGraph:
    """A loop that loads a vector, scales it and stores it; solved in a moment. Another size is another problem."""
    tile = Tile(shape=(size,), dims=(0,), dtype="f32")

    def node(number: int, kind: Any, name: str, **more: Any) -> Node:
        return Node(id=number, kind=kind, name=name, line=10 + number, operations=(), dims=(0,), **more)

    return DependenceGraph(
        kernel=kernel,
        spec="default",
        file="scale.py",
        dims=(Dim(id=0, name="n", size=size, parallel=True, fusable=False),),
        regions=(
            Region(
                id=0,
                kind="loop",
                line=9,
                trip=Trip(text="n // SIZE", constant=None, varies_with_grid=False),
                nodes=(
                    node(0, "load", "x", result=tile, bytes=4 * size, transport="tma", tensor="x_ptr"),
                    node(1, "elementwise", "y", result=tile, counts=(Count(operation="mul.f32", elements=size),)),
                    node(2, "store", "", result=None, bytes=4 * size, transport="tma", tensor="y_ptr"),
                ),
                edges=(
                    Edge(src=0, dst=1, distance=0, kind="value"),
                    Edge(src=1, dst=2, distance=0, kind="value", operand="data"),
                ),
            ),
        ),
    )
