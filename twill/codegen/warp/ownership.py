"""Which elements a thread holds in which registers, as numbers; and whether a rearrangement needs any other thread's.

`elements(layout)[t, i]` is the number of the element, counted row by row, in register i of thread t; -1 for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from twill.codegen.warp.layout import (
    LANES,
    LANES_OF_A_ROW,
    THREADS,
    WARP_ROWS,
    Accumulator,
    Blocked,
    Layout,
    elements_of,
)
from twill.tile.digits import Array, Digits, digits_of, places_of
from twill.tile.interpret.arrays import np


def elements(layout: Layout) -> Array | None:
    """See the top of this file; None for layouts of vectors."""
    threads = threads_of(layout)
    thread, register = np.arange(threads)[:, None], np.arange(elements_of(layout))[None, :]
    match layout:
        case Accumulator(rows, columns, warp_rows):
            block, inner = register // (columns // 2), register % (columns // 2)
            warp, lane = thread // LANES, thread % LANES
            row = warp * warp_rows + lane // LANES_OF_A_ROW + 8 * (inner >> 1 & 1) + block * layout.block_step
            column = inner // 4 * 8 + lane % LANES_OF_A_ROW * 2 + (inner & 1)
            return np.where(row < rows, row * columns + column, -1)
        case Blocked(shape, run):
            number = (register // run * threads + thread) * run + register % run
            return np.where(number < prod(shape), number, -1)
    return None


def threads_of(layout: Layout) -> int:
    """Threads that have a tile between them."""
    return layout.threads if isinstance(layout, Blocked) else THREADS


def register_moves(operands: Sequence[Layout], result: Layout, digits: Digits) -> Digits | None:
    """Where every thread has the elements that it needs, in the same registers: register i of the result is register
    number first + Σ digit · step, counted through the operands' registers one operand after the other. None where some
    thread lacks one."""
    threads = threads_of(result)
    if any(threads_of(layout) != threads for layout in operands):
        return None
    wanted, places = elements(result), places_of(digits)
    held = [elements(layout) for layout in operands]
    if any(isinstance(layout, Accumulator) and layout.rows % (4 * WARP_ROWS) for layout in (*operands, result)):
        return None  # registers without an element
    before, numbers = 0, []
    for mine in held:
        if mine is None or (mine < 0).any():
            return None
        numbers.append(mine + before)
        before += mine.max() + 1
    if wanted is None or (wanted < 0).any():
        return None
    have, need = np.concatenate(numbers, axis=1), places[wanted]
    register_of = np.full((threads, before), -1)
    register_of[np.arange(threads)[:, None], have] = np.arange(have.shape[1])[None, :]
    moves = register_of[np.arange(threads)[:, None], need]
    if (moves < 0).any() or (moves != moves[:1]).any():
        return None
    return digits_of(moves[0])
