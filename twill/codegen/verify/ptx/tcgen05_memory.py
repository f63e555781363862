"""Tensor memory of one CTA: its cells, who has allocated what, and who knows of which access.

What orders accesses (PTX ISA, "tcgen05 Memory Consistency Model"): multiplies of one thread follow one another; what
they did is known to who waits for a later `tcgen05.commit`. A `tcgen05.ld` or `.st` is over at the thread's `wait::ld`
or `wait::st`, and known to others as anything that its warp did before it arrives somewhere. Cells are kept in halves
of the quarter that a warp reaches: 16 lanes x 1 column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.order import Clocks
from twill.codegen.verify.ptx.units.tensor_memory import COLUMNS, HALF, LANES, LEAST, decoded
from twill.ptx.arrays import distinct, highest, lowest, some

Array = Any  # np.ndarray
EMPTY = 0xFFFFFFFF  # what cells hold before anything is written: a NaN, a large number


@dataclass(frozen=True)
class Cells:
    """Some cells. halves: of lanes, [h, 1]; columns: [1, c]; each pair of both is meant."""

    halves: Array
    columns: Array

    @classmethod
    def of(cls, lanes: Array, columns: Array) -> Cells:
        """Those of lanes x columns. Stopped: outside of tensor memory."""
        if highest(lanes) >= LANES or highest(columns) >= COLUMNS:
            said = f"lane {highest(lanes)}, column {highest(columns)} of {LANES} x {COLUMNS} is accessed"
            raise Stopped("bounds", f"tensor memory: {said}")
        return cls(distinct(lanes // HALF)[:, None], distinct(columns)[None])

    @property
    def at(self) -> tuple[Array, Array]:
        """As an index."""
        return self.halves, self.columns


@dataclass(frozen=True)
class Known:
    """What a warp knows that accesses tensor memory: up to which epochs of all agents, and of which behind fences."""

    warp: int
    known: Array
    fenced: Array


class TensorOrder:
    """Who accessed each cell: its last writer and readers in epochs of their clocks, loads and stores in flight."""

    def __init__(self, clocks: Clocks) -> None:
        shape = (LANES // HALF, COLUMNS)
        self.clocks = clocks
        self.writer = np.zeros(shape, np.int32)
        self.written = np.zeros(shape, np.int32)
        self.readers = np.zeros((*shape, clocks.warps), np.int32)
        self.loading = np.zeros(shape, np.int32)
        self.storing = np.zeros(shape, np.int32)

    def known(self, warp: int, agent: int | None = None) -> Known:
        """What a warp knows; of its own multiplies (`agent`) everything, for they follow one another."""
        known, fenced = self.clocks.known[warp].copy(), self.clocks.fenced[warp].copy()
        fenced[warp] = known[warp]
        if agent is not None:
            known[agent] = fenced[agent] = np.iinfo(np.int32).max
        return Known(warp, known, fenced)

    def read(self, cells: Cells, of: Known) -> str:
        """What is wrong with reading cells ("" if nothing), rule first."""
        if some(self.storing[cells.at]):
            return "tcgen05-wait:reads tensor memory that a tcgen05.st without wait::st may still write"
        writer, written = self.writer[cells.at], self.written[cells.at]
        late = written > of.known[writer]
        if some(late):
            return f"order:reads tensor memory that {self._writer(cells, late)} wrote"
        bare = written > of.fenced[writer]
        return self._unfenced(of, f"reads tensor memory that {self._writer(cells, bare)} wrote") if some(bare) else ""

    def overwrite(self, cells: Cells, of: Known) -> str:
        """What is wrong with writing cells."""
        if some(self.loading[cells.at]):
            return "tcgen05-wait:overwrites tensor memory that a tcgen05.ld without wait::ld may still read"
        if some(self.storing[cells.at]):
            return "tcgen05-wait:overwrites tensor memory that a tcgen05.st without wait::st may still write"
        late = self._late(cells, of.known)
        if late:
            return f"order:{late}"
        bare = self._late(cells, of.fenced)
        return self._unfenced(of, bare) if bare else ""

    def _late(self, cells: Cells, clock: Array) -> str:
        """What who knows `clock` does not come after, of writing cells."""
        late = self.written[cells.at] > clock[self.writer[cells.at]]
        if some(late):
            return f"overwrites tensor memory that {self._writer(cells, late)} wrote"
        reads = self.readers[cells.at] > clock[: self.clocks.warps]
        if some(reads):
            return f"overwrites tensor memory that {self.clocks.name(int(np.argwhere(reads)[0][-1]))} reads"
        return ""

    def _unfenced(self, of: Known, what: str) -> str:
        """A missing fence, which is said once of all that the warp has learnt until now."""
        self.clocks.fenced[of.warp] = self.clocks.known[of.warp, : self.clocks.warps]
        return f"tcgen05-fence:{what}"

    def wrote(self, cells: Cells, agent: int, epoch: int) -> None:
        """They are written in an epoch of an agent."""
        self.writer[cells.at] = agent
        self.written[cells.at] = epoch

    def was_read(self, cells: Cells, agent: int, epoch: int) -> None:
        """They are read in an epoch of an agent."""
        self.readers[(*cells.at, agent)] = epoch

    def _writer(self, cells: Cells, wrong: Array) -> str:
        return self.clocks.name(int(self.writer[cells.at][wrong].flat[0]))


class TensorMemory:
    """That of one CTA. allocated: columns by first column. permit: whether it may still allocate."""

    def __init__(self, clocks: Clocks) -> None:
        self.cells = np.full((LANES, COLUMNS), EMPTY, np.uint32)
        self.order = TensorOrder(clocks)
        self.allocated: dict[int, int] = {}
        self.permit = True

    def allocate(self, columns: int) -> int:
        """The address of new columns: the last that are free, for only an allocation of all is known to begin at 0.

        Stopped: no such count, no permit, no room (a CTA that is alone would wait for ever).
        """
        if not LEAST <= columns <= COLUMNS or columns & columns - 1:
            raise Stopped("tensor-memory", f"{columns} columns, no power of two from {LEAST} to {COLUMNS}")
        if not self.permit:
            raise Stopped("tensor-memory", "an allocation after the permit was relinquished")
        for start in range(COLUMNS - columns, -1, -columns):
            if all(start + columns <= other or start >= other + size for other, size in self.allocated.items()):
                self.allocated[start] = columns
                self.cells[:, start : start + columns] = EMPTY
                return start
        raise Stopped("tensor-memory", f"{columns} columns are not free: {self.allocated}")

    def free(self, address: int, columns: int) -> Cells:
        """Gives an allocation back; its cells. Stopped: it is none."""
        if self.allocated.get(address) != columns:
            raise Stopped(
                "tensor-memory", f"{columns} columns at {address:#x} are given back; allocated: {self.allocated}"
            )
        del self.allocated[address]
        return Cells.of(np.arange(LANES), address + np.arange(columns))

    def place(self, address: int, columns: Array) -> tuple[int, Array]:
        """The lane of an address, and columns from it on. Stopped: not within one allocation."""
        try:
            lane, first = decoded(address)
        except ValueError as error:
            raise Stopped("tensor-memory", str(error)) from None
        wanted = first + columns
        low, high = lowest(wanted), highest(wanted)
        if not any(start <= low and high < start + size for start, size in self.allocated.items()):
            raise Stopped("tensor-memory", f"columns {low} to {high} are no part of one allocation: {self.allocated}")
        return lane, wanted
