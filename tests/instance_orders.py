"""The orders of program instances, made by loops: what the arithmetic of the tile scheduler is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twill.codegen.lower.longest_first import LongestFirst
from twill.codegen.warp.program import Cluster
from twill.codegen.warp.scheduling import evenly
from twill.tile.interpret.sequential import instances

AXES = 3
Index = tuple[int, int, int]


def rasterized(grid: Sequence[int], raster_group: int) -> Iterator[Index]:
    """Grid indices in the order that they are worked on. raster group: rows (axis 0) that are walked together, column
    by column (axis 1); 0: the order of the launch grid, axis 0 the fastest."""
    if not raster_group:
        yield from instances(grid)
        return
    rows, columns, layers = (*grid, 1, 1, 1)[:3]
    for layer in range(layers):
        for first in range(0, rows, raster_group):
            for column in range(columns):
                yield from ((row, column, layer) for row in range(first, min(rows, first + raster_group)))


def ordered(grid: Sequence[int], order: LongestFirst, together: int) -> Iterator[Index]:
    """Grid indices from the longest instance to the shortest. together: the most instances along the other axes that
    are walked together."""
    sizes = (*grid, 1, 1, 1)[:AXES]
    others = [a for a in range(AXES) if a != order.axis]
    count = sizes[others[0]] * sizes[others[1]]
    together = evenly(count, together)
    bands = list(range(0, count, max(1, together)))
    for number, first in enumerate(bands):
        upwards = order.grows != bool((len(bands) - 1 - number) % 2)
        for step in range(sizes[order.axis]):
            for other in range(first, min(count, first + together)):
                index = dict(zip(others, (other % sizes[others[0]], other // sizes[others[0]]), strict=True))
                index[order.axis] = sizes[order.axis] - 1 - step if upwards else step
                yield index[0], index[1], index[2]


def rank(instance: int, ctas: int, count: int) -> int:
    """The place of the instance that a CTA has in a round: instance = round * ctas + CTA. Odd rounds run backwards."""
    begin = instance // ctas * ctas
    width = min(ctas, count - begin)
    return instance if instance // ctas % 2 == 0 else begin + width - 1 - (instance - begin)


def paired(grid: Index, cluster: Cluster) -> Index:
    """How many pairs there are along each axis."""
    x, y, z = (-(-size // cluster.ctas) if axis == cluster.axis else size for axis, size in enumerate(grid))
    return x, y, z
