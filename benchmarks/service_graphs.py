"""Kernels for the service's benchmark: as many different ones as are wanted, each solved in a moment."""

from __future__ import annotations

import json
from typing import Any

from twill.graph.dependence import Count, DependenceGraph, Dim, Edge, Node, NodeKind, Region, Tile, Transport, Trip

STEPS = 4  # multiplications in a chain, at most


def graph(number: int) -> DependenceGraph:
    """Kernel `number`: a loop that loads a vector, multiplies it one to four times, and stores it."""
    steps, size = 1 + number % STEPS, 128 * (1 + number // STEPS)
    tile = Tile(shape=(size,), dims=(0,), dtype="f32")
    middle: list[NodeKind] = ["elementwise"] * steps
    kinds: list[NodeKind] = ["load", *middle, "store"]
    nodes = tuple(node(i, kind, tile, size) for i, kind in enumerate(kinds))
    operands = ["in"] * steps + ["data"]
    edges = tuple(Edge(src=i, dst=i + 1, distance=0, kind="value", operand=o) for i, o in enumerate(operands))
    trip = Trip(text="n // SIZE", constant=None, varies_with_grid=False)
    return DependenceGraph(
        kernel=f"scale_{number}",
        spec="default",
        file="scale.py",
        dims=(Dim(id=0, name="n", size=size, parallel=True, fusable=False),),
        regions=(Region(id=0, kind="loop", line=9, trip=trip, nodes=nodes, edges=edges),),
    )


def node(number: int, kind: NodeKind, tile: Tile, size: int) -> Node:
    """One instruction of the loop."""
    moves = kind != "elementwise"
    transport: Transport | None = "tma" if moves else None
    return Node(
        id=number,
        kind=kind,
        name=f"v{number}",
        line=10 + number,
        operations=("mul",) if not moves else (),
        dims=(0,),
        result=None if kind == "store" else tile,
        counts=() if moves else (Count(operation="mul.f32", elements=size),),
        bytes=4 * size if moves else 0,
        transport=transport,
        tensor=f"{kind}_ptr" if moves else "",
    )


def submission(number: int) -> bytes:
    """The body that submits kernel `number` for the H100."""
    value: dict[str, Any] = {"graph": json.loads(graph(number).canonical()), "machine": "h100", "options": {}}
    return json.dumps(value).encode()
