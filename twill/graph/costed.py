"""The costed graph: one loop bound to one machine and one cooperation, ready to be scheduled.

Everything is in cycles, bytes and registers per thread. Rules that give these numbers their
meaning are in `docs/model.md`; the solver (`twill.smt`), the bounds (`twill.zlp`) and the
independent checker (`twill.schedule.checker.check`) all read this document and nothing else about the kernel.
"""

from __future__ import annotations

from typing import Literal

from twill.document import Document, SparseDocument
from twill.graph.dependence import EdgeKind, Space


class Use(Document):
    """One row of a reservation table: `unit` is busy in [t + start, t + start + cycles)."""

    unit: str
    start: int
    cycles: int


class Instruction(Document):
    """A tile instruction of one row block.

    latency: cycles from issue until the result can be read in the issuing warp group.
    hold: cycles from issue in which the issuing warp group can issue nothing else (all of its
    work for a synchronous instruction, only the issue for an asynchronous one).
    contexts: kinds of warp group that may issue it. block: row block, -1 if shared by all.
    source: node id in the region of the dependence graph (-1 if inserted for the machine).
    """

    id: int
    name: str
    op: str
    unit: str
    line: int
    block: int
    uses: tuple[Use, ...]
    latency: int
    hold: int
    asynchronous: bool
    variable_latency: bool
    contexts: tuple[str, ...]
    single_issuer: str = ""  # instructions with the same non-empty tag must share a warp group
    source: int = -1


class CostedEdge(Document):
    """t(dst) + distance * I >= t(src) + delay + (crossing if their warp groups differ)."""

    src: int
    dst: int
    delay: int
    distance: int
    crossing: int
    kind: EdgeKind


class Read(Document):
    """Instruction `reader` of iteration i reads the value made in iteration i - distance."""

    reader: int
    distance: int


class CostedValue(Document):
    """One result that occupies a memory from its birth to the end of its last reader.

    registers: per thread of a 128-thread warp group if space is "register", else 0.
    bytes: of one copy if space is "shared" or "tmem", else 0.
    spill: cycles the producing warp group is held, from the value's readiness, if some reader
    is in another warp group (register values go through shared memory).
    storage: id of the in-place storage that the value lives in, or None.
    """

    id: int
    name: str
    line: int
    block: int
    producer: int
    space: Space
    bytes: int
    registers: int
    reads: tuple[Read, ...]
    spill: int
    storage: int | None = None


def is_lent(value: CostedValue) -> bool:
    """Whether a value in registers is a sum's whose first value has the registers, as long as any of them is read."""
    return value.space == "register" and not value.registers and value.storage is None


class Storage(Document):
    """An accumulator updated in place across iterations: resident all the time, counted once.

    Register storages are charged to every warp group that produces one of its values.
    """

    id: int
    name: str
    line: int
    block: int
    space: Space
    bytes: int
    registers: int


class Invariant(Storage):
    """A tile made before the loop and only read in it, or the registers that an instruction works in: resident all the
    time.

    Register invariants are charged to every warp group with a reader.
    """

    readers: tuple[int, ...]


class Cooperation(SparseDocument):
    """How row blocks arise: `dim` split into `split` parts and/or `fuse` instances fused.

    operand_a: where an operand A that was computed in the loop is put for the tensor core. columns: products that join
    row blocks are made in parts of their columns, one a row block (`twill.graph.by_columns`). width: warp groups' worth
    of threads that have one row block between them, in a loop without products; registers are those of each thread.
    polynomial: how many of 16 exponentials of a tile are a polynomial (`twill.graph.exponentials`). pair: two CTAs make
    each product together (`twill.graph.pairs`).
    """

    dim: str  # "" if neither
    split: int
    fuse: int
    operand_a: Space = "register"
    columns: bool = False
    width: int = 1
    polynomial: int = 0
    pair: bool = False

    sparse = ("columns", "width", "polynomial", "pair")

    @property
    def blocks(self) -> int:
        """Number of row blocks of the cooperating program instance(s)."""
        return self.split * self.fuse


class Normalization(Document):
    """How exact cycles became small integers (the paper's cost normalization, ZLP).

    bound: the U of `--normalize U`, the sum or size limit given by the user. cycles_per_unit:
    the scale F chosen. worst_error: largest relative error of any rescaled cost (0.04 = 4 %).
    """

    bound: int
    cycles_per_unit: float
    worst_error: float


class CostedGraph(Document):
    """One loop, costed. `machine` is the machine's name, `machine_digest` its document digest."""

    name: str
    line: int
    region: int
    machine: str
    machine_digest: str
    cooperation: Cooperation
    normalization: Normalization | None = None
    instructions: tuple[Instruction, ...]
    edges: tuple[CostedEdge, ...]
    values: tuple[CostedValue, ...]
    storages: tuple[Storage, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    kind: Literal["loop", "straight"] = "loop"
    interleaved: tuple[str, ...] = ()  # units of which only the sum of cycles counts
