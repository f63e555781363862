"""How a tile in registers is spread over the 128 threads of a warp group.

- Accumulator(rows, columns): the D fragment of wgmma (PTX, "Register Fragments and Shared Memory Matrix
  Layouts"), one for each 64 rows. With thread t of the warp group, warp w = t / 32, lane l = t % 32, register i
  of the row block m holds

      row = 64 m + 16 w + l / 4 + 8 ((i >> 1) & 1)      column = 8 (i >> 2) + 2 (l & 3) + (i & 1)

  `columns` / 2 registers for each 64 rows. Elements of 16 bits are packed in pairs (i even in the low
  half), which is the A fragment of wgmma: four packed registers for each 16 columns.
- Along(parent, axis): the vector that is left of an Accumulator when its axis 1 (a value for each
  row) or axis 0 (a value for each column) is taken away; equal in all threads that share the row or column.
  A row vector has registers (m, (i >> 1) & 1), a column vector (i >> 2, i & 1). A row vector in parts is not equal in
  the four threads of a row: its number is their sum.
- Blocked(shape, run): a tile without a matrix around it. Elements in row-major order are dealt in runs of
  `run` to threads 0 ... 127, round and round: register c * run + e of thread t holds element
  (c * 128 + t) * run + e. Elements past the end are padding (never stored, neutral in reductions).
- AlongBlocked(parent, axis): the vector left of a Blocked matrix when an axis is taken away, in the threads that hold
  the matrix: of its axis 1 (a value for each row) register c is that of the row in which run c lies, of its axis 0 (a
  value for each column) register i is that of the column of the matrix's register i. What an address is made of.
- Uniform: one element, in every thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

THREADS = 128
LANES_OF_A_ROW = 4


@dataclass(frozen=True)
class Accumulator:
    """rows: a multiple of 64. columns: a multiple of 8."""

    rows: int
    columns: int


@dataclass(frozen=True)
class Along:
    """The vector left of `parent` when `axis` is taken away: axis 1 leaves rows, axis 0 columns.

    parts: of a row vector, that the lanes which share a row have parts of its number, which is their sum."""

    parent: Accumulator
    axis: int
    parts: bool = False


@dataclass(frozen=True)
class Blocked:
    """See the top of this file."""

    shape: tuple[int, ...]
    run: int


@dataclass(frozen=True)
class AlongBlocked:
    """The vector left of `parent`, a matrix, when `axis` is taken away: axis 1 leaves rows, axis 0 columns."""

    parent: Blocked
    axis: int


@dataclass(frozen=True)
class Uniform:
    """One element (shape ()), in every thread."""


Layout = Accumulator | Along | Blocked | AlongBlocked | Uniform


def runs(shape: tuple[int, ...]) -> Blocked:
    """A tile dealt in the longest runs, up to 8 elements, that give every thread as many and end with the rows."""
    run = 8
    while run > 1 and (math.prod(shape) % (run * THREADS) or shape[-1] % run):
        run //= 2
    return Blocked(shape, run)


def shape_of(layout: Layout) -> tuple[int, ...]:
    """The shape of the tile."""
    match layout:
        case Accumulator(rows, columns):
            return rows, columns
        case Along(parent, axis):
            return (parent.rows,) if axis == 1 else (parent.columns,)
        case Blocked(shape):
            return shape
        case AlongBlocked(parent, axis):
            return (parent.shape[1 - axis],)
        case Uniform():
            return ()


def elements_of(layout: Layout) -> int:
    """Elements that each thread holds (with repetition among threads)."""
    match layout:
        case Accumulator(rows, columns):
            return rows // 64 * columns // 2
        case Along(parent, 1):
            return parent.rows // 64 * 2
        case Along(parent):
            return parent.columns // 4
        case Blocked(shape, run):
            return -(-math.prod(shape) // (run * THREADS)) * run
        case AlongBlocked(parent, axis):
            return elements_of(parent) // (parent.run if axis == 1 else 1)
        case Uniform():
            return 1


def text(layout: Layout) -> str:
    """For people: "accumulator", "rows", "columns", "blocked 8", "uniform"."""
    match layout:
        case Accumulator():
            return "accumulator"
        case Along(_, axis, parts):
            return "parts of rows" if parts else "rows" if axis == 1 else "columns"
        case Blocked(_, run):
            return f"blocked {run}"
        case AlongBlocked(_, axis):
            return "rows of blocked" if axis == 1 else "columns of blocked"
        case Uniform():
            return "uniform"
