"""A kernel that strides over tiles by its launch grid: the instances that there are for a launch.

A persistent Triton kernel has a loop around its work: program p works on tiles p, p + stride, p + 2·stride, ...
below a count. Emitted code has a tile scheduler for that, so that a tile is a program instance, and the launch grid
has as many instances along that axis as there are tiles, whatever grid Triton's kernel was launched on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.manifest.evaluate import Scalar, evaluate


@dataclass(frozen=True)
class TileLoop:
    """axis: of the launch grid. count: tiles, over the scalar arguments. stride: None is the number of programs along
    the axis. once: a tile that two programs work on is not what one leaves (it adds to memory)."""

    axis: int
    count: Scalar
    stride: Scalar | None
    once: bool


def instance_grid(tiles: TileLoop | None, grid: Sequence[int], scalars: Mapping[str, int | float]) -> tuple[int, ...]:
    """The grid of instances for a launch of Triton's kernel on `grid`; `grid` itself if there is no such loop.

    Errors: ValueError, in words, for a grid whose programs leave tiles out, or work twice on tiles that must not be;
    OverflowError, ZeroDivisionError, KeyError of `evaluate`.
    """
    if tiles is None or 0 in grid:
        return tuple(grid)
    count = max(0, int(evaluate(tiles.count, scalars)))
    given = grid[tiles.axis] if tiles.axis < len(grid) else 1
    stride = given if tiles.stride is None else int(evaluate(tiles.stride, scalars))
    if stride <= 0:
        raise ValueError(f"a loop over {count} tiles by steps of {stride}")
    if given < min(stride, count):
        raise ValueError(f"{given} programs, which leave out some of {count} tiles by steps of {stride}")
    if tiles.once and given > stride < count:
        raise ValueError(f"{given} programs, of which some work on the same of {count} tiles by steps of {stride}")
    sizes = [*grid, *[1] * (tiles.axis + 1 - len(grid))]
    sizes[tiles.axis] = count
    return tuple(sizes)
