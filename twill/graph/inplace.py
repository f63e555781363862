"""Write-after-read dependences of accumulators that MMAs update in place.

An MMA D whose operand "c" is its own result of the iteration before, directly or through
elementwise nodes that only rescale it (same shape and type, each read by the next one alone),
keeps that tile in one place: the nodes on the way, W1 ... Wk = D, overwrite it one after the
other. Every other reader r of D's result must then be done before W1 of the next iteration:

- r reads the old accumulator (distance 1): r before W1 in the same iteration, an anti edge r -> W1
  of distance 0;
- r reads the new accumulator (distance 0): an anti edge r -> W1 of distance 1.

If that is impossible (a reader from two iterations back, a reader in the middle of W1 ... Wk, or a
circle within one iteration), the accumulator is not updated in place and gets no anti edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twill.graph.dependence import Edge, NodeKind, Tile
from twill.reach import reach


def anti_edges(
    kinds: Mapping[int, NodeKind], tiles: Mapping[int, Tile | None], edges: Sequence[Edge]
) -> tuple[Edge, ...]:
    """The anti edges of one loop, given its other edges, kinds and result tiles by node."""
    found: list[Edge] = []
    for node, kind in kinds.items():
        path = _update_path(node, kinds, tiles, edges) if kind == "mma" else ()
        extra = _protect(path, [*edges, *found]) if path else None
        found.extend(extra or ())
    return tuple(dict.fromkeys(found))


def _update_path(
    mma: int, kinds: Mapping[int, NodeKind], tiles: Mapping[int, Tile | None], edges: Sequence[Edge]
) -> tuple[int, ...]:
    """W1 ... Wk = MMA, or () if the MMA does not accumulate onto itself."""
    path = [mma]
    while True:
        incoming = [e for e in edges if e.kind == "value" and e.dst == path[0]]
        if path[0] == mma:
            incoming = [e for e in incoming if e.operand == "c"]
        if any(e.src == mma and e.distance == 1 for e in incoming):
            return tuple(path)
        steps = [
            e.src
            for e in incoming
            if e.distance == 0
            and e.src not in path
            and kinds[e.src] == "elementwise"
            and _same_tile(tiles[e.src], tiles[mma])
            and all(o.dst == path[0] and o.distance == 0 for o in edges if o.kind == "value" and o.src == e.src)
        ]
        if not steps:
            return ()
        path.insert(0, steps[0])


def _same_tile(left: Tile | None, right: Tile | None) -> bool:
    return left is not None and right is not None and (left.shape, left.dtype) == (right.shape, right.dtype)


def _protect(path: tuple[int, ...], edges: Sequence[Edge]) -> list[Edge] | None:
    first, mma = path[0], path[-1]
    anti = []
    for edge in edges:
        if edge.kind != "value" or edge.src != mma:
            continue
        if edge.dst == first and edge.distance == 1 and (first != mma or edge.operand == "c"):
            continue
        if edge.distance > 1 or edge.dst in path:
            return None
        anti.append(Edge(src=edge.dst, dst=first, distance=1 - edge.distance, kind="anti"))
    if any(_reaches(edge.dst, edge.src, [*edges, *anti]) for edge in anti if edge.distance == 0):
        return None
    return anti


def _reaches(start: int, goal: int, edges: Sequence[Edge]) -> bool:
    """Whether `goal` must come after `start` within one iteration."""
    return goal in reach([start], lambda node: (e.dst for e in edges if e.src == node and e.distance == 0))
