"""Which layout an operand must have where it is used, and how a tile gets from one layout into another.

A conversion goes through scratch shared memory of the warp group: all threads store what they hold, wait for one
another, and load what they need. It is always possible, so two uses of a tile that want it spread differently are never
a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.tiles import COLUMNS, ROWS, vector
from twill.codegen.targets.base import Target
from twill.codegen.warp.layout import (
    Accumulator,
    Along,
    Blocked,
    Layout,
    Slice,
    Uniform,
    as_matrix,
    has_slices,
    shape_of,
)
from twill.codegen.warp.program import Fragment, LoadShared, SlotRef, Stmt, StoreShared, Sync

Axes = tuple[int, ...]


def operand_layout(result: Layout, axes: Axes, target: Target) -> Layout | None:
    """How an operand must lie so that every thread has what it needs for its part of a result; None if no layout does
    that. axes: for each axis of the result that of the operand, -1 along which it repeats."""
    if axes == tuple(range(len(axes))):
        return result
    if axes not in ((0, -1), (-1, 0)):
        return None
    side = ROWS if axes == (0, -1) else COLUMNS
    if isinstance(result, Accumulator):
        return vector(result.rows if side == ROWS else result.columns, side, target)
    return Slice(result, side) if isinstance(result, Blocked) and has_slices(result) else None


def reduced_layout(operand: Layout, axis: int, target: Target) -> Layout | None:
    """How the result of a reduction along `axis` lies; None if there is no such reduction."""
    if len(shape_of(operand)) < 2:
        return Uniform()
    if isinstance(operand, Accumulator):
        return vector(operand.rows if axis == ROWS else operand.columns, axis, target)
    matrix = as_matrix(operand, axis) if isinstance(operand, Blocked) else None
    return Slice(matrix, ROWS if axis else COLUMNS) if matrix is not None and has_slices(matrix) else None


def fits(layout: Layout, wanted: Layout) -> bool:
    """Whether a tile in one layout is in the other as well, register by register."""
    match layout, wanted:
        case Uniform(), _:
            return True
        case Along(_, axis), Along(_, other):
            return axis == other and shape_of(layout) == shape_of(wanted)
        case Blocked(shape, run, threads), Blocked(other, own, others):
            return (run, threads) == (own, others) and prod(shape) == prod(other)
    return layout == wanted


def converted(
    memory: SharedMemoryPlan, group: int, source: Fragment, result: Fragment, transposed: bool, line: int
) -> Iterator[Stmt]:
    """The tile of `source`, or its transpose, into `result`, by all threads of a warp group."""
    shape = shape_of(source.layout)
    shape = shape[::-1] if transposed else shape if len(shape) < 3 else (prod(shape[:-1]), shape[-1])
    if len(shape_of(result.layout)) == 1 or len(shape_of(source.layout)) == 1:
        shape = (prod(shape),)
    name = f"conversions {group}"
    known = (b for b in memory.buffers if (b.name, b.shape, b.element) == (name, shape, source.element))
    buffer = next(known, None) or memory.buffer(name, shape, source.element, 1)
    barrier = memory.barrier(f"group {group}", (group,)).id
    yield Sync(barrier, line=line)
    yield StoreShared(source.id, SlotRef(buffer.id), transposed, line=line)
    yield Sync(barrier, line=line)
    yield LoadShared(SlotRef(buffer.id), result.id, line=line)
