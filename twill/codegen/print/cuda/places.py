"""Which element of a tile register number i of a thread holds, and which register of an operand belongs to it: in C.

An index along an axis is the sum of a part that depends on the thread (variables lane_row, lane_column, thread of the
printed role) and a part in i that is a constant once the loop over i is unrolled. See `twill.codegen.warp.layout`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from twill import exc
from twill.codegen.warp.layout import (
    WARP_ROWS,
    Accumulator,
    Along,
    AlongBlocked,
    Blocked,
    Layout,
    Slice,
    Uniform,
    shape_of,
)
from twill.codegen.warp.layout import text as layout_text


@dataclass(frozen=True)
class LaneIndex:
    """lane + constant, both C expressions."""

    lane: str
    constant: str

    def text(self) -> str:
        """The whole index."""
        parts = [part for part in (self.lane, self.constant) if part != "0"]
        return f"({' + '.join(parts)})" if parts else "0"


def lane_row(layout: Accumulator, repeats: bool = False) -> str:
    """C: the variable that has the first row of a lane, in matrices of which a warp has as many rows. repeats: as for
    `warp_row`."""
    if repeats:
        return f"{warp_row(layout, repeats)}lane / 4"
    return "lane_row" if layout.warp_rows == WARP_ROWS else f"lane_row_{layout.warp_rows}"


def warp_row(layout: Accumulator, repeats: bool, size: int = 1) -> str:
    """C: the first row of a warp, times so many bytes, to which something is added. repeats: whether warps that hold
    padding alone have the rows of others."""
    if not repeats:
        return f"warp * {layout.warp_rows * size} + "
    return f"warp % {layout.rows // WARP_ROWS} * {WARP_ROWS * size} + " if layout.rows > WARP_ROWS else ""


def indices(layout: Layout, i: str = "i") -> tuple[LaneIndex, ...]:
    """The index along each axis of the element in register `i`."""
    match layout:
        case Accumulator(rows, columns):
            count = columns // 2
            row, inner = f"({i} >> 1 & 1) * 8", i
            if rows > 64:
                row, inner = f"{i} / {count} * {layout.block_step} + {row}", f"{i} % {count}"
            return LaneIndex(lane_row(layout), row), LaneIndex("lane_column", f"{inner} / 4 * 8 + ({i} & 1)")
        case Along(parent, 1):
            return (LaneIndex(lane_row(parent), f"{i} / 2 * {parent.block_step} + ({i} & 1) * 8"),)
        case Along():
            return (LaneIndex("lane_column", f"{i} / 2 * 8 + ({i} & 1)"),)
        case Blocked():
            return _blocked(layout, i)
        case Slice():
            return (_sliced(layout, i),)
        case AlongBlocked(parent, 1):
            return (_blocked(parent, f"({i} * {parent.run})")[0],)
        case AlongBlocked(parent):
            return (_blocked(parent, i)[1],)
        case Uniform():
            return ()


def _blocked(layout: Blocked, i: str) -> tuple[LaneIndex, ...]:
    """Of a row-major tile: split into lane and constant where the rows divide evenly, by division elsewhere."""
    shape, run, step = layout.shape, layout.run, layout.step
    flat = f"({i} / {run} * {step} + {i} % {run})"
    if len(shape) == 1:
        return (LaneIndex(f"thread * {run}", flat),)
    inner = math.prod(shape[1:])
    head: tuple[LaneIndex, ...]
    if len(shape) == 2 and shape[1] % run == 0 and step % inner == 0:
        head = (LaneIndex(f"thread * {run} / {inner}", f"{i} / {run} * {step // inner}"),)
        return (*head, LaneIndex(f"thread * {run} % {inner}", f"{i} % {run}"))
    if len(shape) == 2 and inner % step == 0:
        head = (LaneIndex("0", f"{i} / {run} * {step} / {inner}"),)
        return (*head, LaneIndex(f"thread * {run}", f"({i} / {run} * {step} % {inner} + {i} % {run})"))
    out, element = [], f"(thread * {run} + {flat})"
    for axis, extent in enumerate(shape):
        below = math.prod(shape[axis + 1 :])
        out.append(LaneIndex("0", f"{element} / {below} % {extent}"))
    return tuple(out)


def _sliced(layout: Slice, i: str) -> LaneIndex:
    """Of a vector of a blocked matrix, split as in the matrix."""
    run, step, columns = layout.parent.run, layout.step, layout.parent.shape[1]
    if layout.axis == 1:
        return (
            LaneIndex("0", i)
            if layout.is_long
            else LaneIndex(f"thread * {run} / {columns}", f"{i} * {step // columns}")
        )
    if layout.is_long:
        return LaneIndex(f"thread * {run}", f"({i} / {run} * {step} + {i} % {run})")
    return LaneIndex(f"thread * {run} % {columns}", i)


def owner(layout: Layout) -> str:
    """C condition that this thread is the one, of all that hold the same elements, that stores them; "" if all are."""
    match layout:
        case Along(_, 1):
            return "lane % 4 == 0"
        case Along():
            return "warp == 0 && lane < 4"
        case Slice(_, 1):
            return "leader" if layout.is_long else f"thread % {layout.sharing} == 0"
        case Slice():
            return "" if layout.is_long else f"thread < {layout.sharing}"
        case Uniform():
            return "leader"
        case _:
            return ""


def inside(layout: Layout, i: str = "i") -> str:
    """C condition that register `i` holds an element of the tile rather than padding; "" if all do."""
    if isinstance(layout, Slice):
        if not inside(layout.parent) or layout.axis == 0:
            return ""
        return f"{_sliced(layout, i).text()} < {layout.parent.shape[0]}"
    if isinstance(layout, AlongBlocked):
        return inside(layout.parent, f"({i} * {layout.parent.run})" if layout.axis == 1 else i)
    rows = layout.rows if isinstance(layout, Accumulator) else layout.parent.rows if isinstance(layout, Along) else 64
    if rows < 64 and not (isinstance(layout, Along) and layout.axis == 0):
        return f"warp * 16 < {rows}"
    if not isinstance(layout, Blocked):
        return ""
    total, step = math.prod(layout.shape), layout.step
    if total % step == 0:
        return ""
    return f"{i} / {layout.run} * {step} + thread * {layout.run} + {i} % {layout.run} < {total}"


def register(result: Layout, operand: Layout, axes: tuple[int, ...], i: str = "i") -> str:
    """The register of `operand`, spread by `axes`, that meets register `i` of `result`.

    Errors: UnsupportedInKernel if that value is held by another thread.
    """
    if isinstance(operand, Uniform):
        return "0"
    if operand == result and axes in ((), tuple(range(len(shape_of(result))))):
        return i
    match result, operand:
        case Accumulator(rows, columns), Along(parent, 1) if axes == (0, -1) and parent.rows == rows:
            return f"({i} >> 1 & 1)" if rows <= 64 else f"({i} / {columns // 2} * 2 + ({i} >> 1 & 1))"
        case Accumulator(rows, columns), Along(parent, 0) if axes == (-1, 0) and parent.columns == columns:
            inner = i if rows <= 64 else f"{i} % {columns // 2}"
            return f"({inner} / 4 * 2 + ({i} & 1))"
        case Along(_, axis), Along(_, same) if axes in ((), (0,)) and axis == same:
            if shape_of(result) == shape_of(operand):
                return i
        case Blocked(_, run), AlongBlocked(parent, 1) if axes == (0, -1) and parent == result:
            return f"({i} / {run})"
        case Blocked(), AlongBlocked(parent, 0) if axes == (-1, 0) and parent == result:
            return i
        case Blocked(shape, run, threads), Blocked(other, own, others) if axes in ((), tuple(range(len(shape)))):
            if (run, threads) == (own, others) and math.prod(shape) == math.prod(other):
                return i
        case Blocked(_, run), Slice(parent, axis) if parent == result and axes == ((0, -1) if axis == 1 else (-1, 0)):
            columns, each = parent.shape[1], operand.step
            if axis == 1:
                return f"({i} / {run} * {each} / {columns})" if operand.is_long else f"({i} / {run})"
            if operand.is_long:
                return f"({i} / {run} * {each} % {columns} / {each} * {run} + {i} % {run})"
            return f"({i} % {run})"
    raise exc.UnsupportedInKernel(
        f"a tile {shape_of(operand)} spread as {layout_text(operand)} cannot be an operand (axes {axes}) of a tile"
        f" {shape_of(result)} spread as {layout_text(result)}: other threads hold it"
    )
