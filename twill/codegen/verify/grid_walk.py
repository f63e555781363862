"""The order in which program instances are worked on: the launch grid row after row, or in bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twill.tile.interpret.sequential import instances


def walked(grid: Sequence[int], band: int) -> Iterator[tuple[int, int, int]]:
    """Grid indices in the order that they are worked on. band: rows (axis 0) that are walked together, column by column
    (axis 1); 0: the order of the launch grid, axis 0 the fastest."""
    if not band:
        yield from instances(grid)
        return
    rows, columns, layers = (*grid, 1, 1, 1)[:3]
    for layer in range(layers):
        for first in range(0, rows, band):
            for column in range(columns):
                yield from ((row, column, layer) for row in range(first, min(rows, first + band)))
