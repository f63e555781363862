"""How a tile in registers is spread over the threads of a warp group: 128, or more where one has no products.

- Accumulator(rows, columns): the result of an MMA of a warp group (PTX ISA, "Register Fragments and Shared Memory
  Matrix Layouts"), one for each 64 of its rows. With thread t of the warp group, warp w = t / 32, lane l = t % 32,
  register i of the row block m holds

      row = 64 m + 16 w + l / 4 + 8 ((i >> 1) & 1)      column = 8 (i >> 2) + 2 (l & 3) + (i & 1)

  `columns` / 2 registers for each block m. Where a warp has 32 neighbouring rows (`warp_rows`: those of its quarter of
  tensor memory, which tcgen05.ld, 16x256b, brings into registers in this way), an instruction has two blocks, and

      row = 32 w + 16 m + l / 4 + 8 ((i >> 1) & 1)

  Elements of 16 bits are packed in pairs (i even in the low
  half), which is the layout of an operand A: four packed registers for each 16 columns.
- Along(parent, axis): the vector that is left of an Accumulator when its axis 1 (a value for each
  row) or axis 0 (a value for each column) is taken away; equal in all threads that share the row or column.
  A row vector has registers (m, (i >> 1) & 1), a column vector (i >> 2, i & 1). A row vector in parts is not equal in
  the four threads of a row: its number is their sum.
- Blocked(shape, run, threads): a tile without a matrix around it. Elements in row-major order are dealt in runs of
  `run` to threads 0 ... threads - 1, round and round: register c * run + e of thread t holds element
  (c * threads + t) * run + e. Elements past the end are padding (never stored, neutral in reductions).
- Slice(parent, axis): the vector that is left of a Blocked matrix when its axis 1 (a value for each row) or axis 0 (one
  for each column) is taken away; equal in all threads that share the row or column. Either a round of runs is whole
  rows (thread t then has columns t * run % C ... and one row a round), or a row is whole rounds (thread t then has
  `run` columns of each round, and every row).
- AlongBlocked(parent, axis): the vector left of a Blocked matrix when an axis is taken away, in the threads that hold
  the matrix: of its axis 1 (a value for each row) register c is that of the row in which run c lies, of its axis 0 (a
  value for each column) register i is that of the column of the matrix's register i. What an address is made of.
- Uniform: one element, in every thread.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

THREADS = 128
LANES = 32
LANES_OF_A_ROW = 4
WARP_ROWS = 16  # neighbouring rows of an accumulator that a warp has, unless said otherwise


@dataclass(frozen=True)
class Accumulator:
    """rows: a multiple of 64, or 16, 32 or 48 of the 64 of a block; the rest is padding. columns: a multiple of 8.
    warp_rows: neighbouring rows that a warp has, 16 or 32; with 32 there are 128 rows."""

    rows: int
    columns: int
    warp_rows: int = WARP_ROWS

    @property
    def block_step(self) -> int:
        """Rows from the first of a thread's block to that of its next one."""
        return 64 if self.warp_rows == WARP_ROWS else WARP_ROWS


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
    threads: int = THREADS

    @property
    def step(self) -> int:
        """Elements of a round."""
        return self.run * self.threads


@dataclass(frozen=True)
class AlongBlocked:
    """The vector left of `parent`, a matrix, when `axis` is taken away: axis 1 leaves rows, axis 0 columns."""

    parent: Blocked
    axis: int


@dataclass(frozen=True)
class Slice:
    """The vector left of `parent`, a matrix of which `has_slices` holds, when `axis` is taken away."""

    parent: Blocked
    axis: int

    @property
    def is_long(self) -> bool:
        """Whether a row of the parent is whole rounds of runs, rather than a round whole rows."""
        return self.parent.shape[1] >= self.parent.step

    @property
    def step(self) -> int:
        """Elements of a round."""
        return self.parent.step

    @property
    def sharing(self) -> int:
        """Neighbouring threads that have parts of one row."""
        return min(self.parent.threads, self.parent.shape[1] // self.parent.run)


@dataclass(frozen=True)
class Uniform:
    """One element (shape ()), in every thread."""


Layout = Accumulator | Along | Blocked | AlongBlocked | Slice | Uniform


COLUMNS_TOGETHER = 8  # of an accumulator, which lanes share


def columns_of(layout: Layout, columns: tuple[int, int] | None) -> Layout | None:
    """The layout of columns [first, last) of an accumulator in the same registers, or of all of any layout (None). None
    if there is none."""
    if columns is None:
        return layout
    first, last = columns
    if not isinstance(layout, Accumulator) or not 0 <= first < last <= layout.columns:
        return None
    if first % COLUMNS_TOGETHER or last % COLUMNS_TOGETHER:
        return None
    return replace(layout, columns=last - first)


def has_slices(layout: Layout) -> bool:
    """Whether the vectors of a blocked matrix are dealt evenly: runs end with rows, and rounds with rows or rows with
    rounds."""
    if not isinstance(layout, Blocked) or len(layout.shape) != 2:
        return False
    columns, step = layout.shape[1], layout.step
    return columns % layout.run == 0 and (columns % step == 0 or step % columns == 0)


def as_matrix(layout: Blocked, axis: int) -> Blocked | None:
    """The same tile as a matrix with `axis` of it for one of its two; None if that axis is neither the first nor the
    last."""
    if axis == len(layout.shape) - 1:
        return replace(layout, shape=(math.prod(layout.shape[:-1]), layout.shape[-1]))
    return replace(layout, shape=(layout.shape[0], math.prod(layout.shape[1:]))) if axis == 0 else None


def crosses_warps(operand: Layout, result: Layout, axis: int) -> bool:
    """Whether a reduction along `axis` brings together what several warps hold. Only then does it have scratch memory,
    and do its threads wait for one another."""
    match operand, result:
        case _, Slice():
            return result.sharing > LANES if axis == 1 else not result.is_long
        case _, Along():
            return axis == 0
        case Slice(_, 0), _:  # threads that share a row have all columns between them
            return operand.sharing > LANES
        case Slice(), _:  # where rows are long, every thread has all of them
            return not operand.is_long
        case Along(_, 0), _:  # every warp has all columns
            return False
    return True


def runs(shape: tuple[int, ...], threads: int = THREADS) -> Blocked:
    """A tile dealt to so many threads in the longest runs, up to 8 elements, that give each as many and end with the
    rows."""
    run = 8
    while run > 1 and (math.prod(shape) % (run * threads) or shape[-1] % run):
        run //= 2
    return Blocked(shape, run, threads)


def shape_of(layout: Layout) -> tuple[int, ...]:
    """The shape of the tile."""
    match layout:
        case Accumulator(rows, columns):
            return rows, columns
        case Along(parent, axis):
            return (parent.rows,) if axis == 1 else (parent.columns,)
        case Blocked(shape):
            return shape
        case Slice(parent, axis) | AlongBlocked(parent, axis):
            return (parent.shape[1 - axis],)
        case Uniform():
            return ()


def elements_of(layout: Layout) -> int:
    """Elements that each thread holds (with repetition among threads)."""
    match layout:
        case Accumulator(rows, columns):
            return -(-rows // 64) * columns // 2
        case Along(parent, 1):
            return -(-parent.rows // 64) * 2
        case Along(parent):
            return parent.columns // 4
        case Blocked(shape, run):
            return -(-math.prod(shape) // layout.step) * run
        case Slice(parent, 1):
            return parent.shape[0] if layout.is_long else -(-math.prod(parent.shape) // layout.step)
        case Slice(parent):
            return parent.shape[1] // parent.threads if layout.is_long else parent.run
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
        case Slice(_, axis):
            return "blocked rows" if axis == 1 else "blocked columns"
        case AlongBlocked(_, axis):
            return "rows of blocked" if axis == 1 else "columns of blocked"
        case Uniform():
            return "uniform"
