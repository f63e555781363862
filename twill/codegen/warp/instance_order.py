"""The orders in which the program instances of a launch are worked on, as sequences of grid indices.

A static order is the launch grid row after row, in raster groups of rows (grouped rasterization), or from the longest
instances to the shortest; `WarpProgram.raster group` and `.order` say which. What is printed walks the same sequences
with arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twill.codegen.warp.program import LongestFirst
from twill.tile.interpret.sequential import instances

AXES = 3


def rasterized(grid: Sequence[int], raster_group: int) -> Iterator[tuple[int, int, int]]:
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


def evenly(count: int, most: int) -> int:
    """The width of raster groups that are about as wide as one another, none wider than `most`: a narrow last raster
    group would begin with long instances when most CTAs are nearly done. They get narrower until the last one has half
    their width."""
    raster_groups = -(-count // max(1, most))
    width = max(1, -(-count // max(1, raster_groups)))
    while 2 * ((count - 1) % width + 1) < width:
        width -= 1
    return width


def ordered(grid: Sequence[int], order: LongestFirst | None, together: int) -> Iterator[tuple[int, int, int]]:
    """Grid indices from the first to the last rank. together: the most instances along the other axes that are walked
    together. Without an order: axis 0 is the fastest."""
    sizes = (*grid, 1, 1, 1)[:AXES]
    axis = order.axis if order is not None else AXES - 1
    others = [a for a in range(AXES) if a != axis]
    count = sizes[others[0]] * sizes[others[1]]
    together = evenly(count, together) if order is not None else count
    raster_groups = list(range(0, count, max(1, together)))
    for number, first in enumerate(raster_groups):
        upwards = (order is not None and order.grows) != bool((len(raster_groups) - 1 - number) % 2)
        for step in range(sizes[axis]):
            for other in range(first, min(count, first + together)):
                index = dict(zip(others, (other % sizes[others[0]], other // sizes[others[0]]), strict=True))
                index[axis] = sizes[axis] - 1 - step if upwards else step
                yield index[0], index[1], index[2]


def rank(instance: int, ctas: int, instances: int) -> int:
    """The rank of the instance that a CTA has in a round: instance = round * ctas + CTA. Odd rounds run backwards."""
    begin = instance // ctas * ctas
    width = min(ctas, instances - begin)
    return instance if instance // ctas % 2 == 0 else begin + width - 1 - (instance - begin)
