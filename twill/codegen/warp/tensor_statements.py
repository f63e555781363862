"""The statements of a warp program about tensor memory, beside those of `twill.codegen.warp.statements`."""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.resources import SlotRef
from twill.codegen.warp.statements import Stmt


@dataclass(frozen=True)
class TensorMultiply(Stmt):
    """target[rows, n] (+)= A[rows, k] B[k, n] in tensor memory, issued by one thread, asynchronous; those of one thread
    are done in order.

    target: a slot in tensor memory. a: a slot, whose tile is [k, rows] if a_transposed, which one in tensor memory is
    never. b: as of Multiply. accumulate: whether it adds to what is there (i1), or overwrites it. operand: element type
    of A and B.

    of_a, of_b: slots in tensor memory with scales of A and B, one of `block` elements along k (0: there are none), as
    CopyScales leaves them. Operands of i8 are then two elements of e2m1 each. Scales of i8 are of type e8m0.
    """

    target: SlotRef
    a: SlotRef
    b: SlotRef
    a_transposed: bool
    b_transposed: bool
    depth: int  # k
    operand: str
    accumulate: Expr
    of_a: SlotRef | None = None
    of_b: SlotRef | None = None
    block: int = 0


@dataclass(frozen=True)
class CopyScales(Stmt):
    """target = the scales in a slot of shared memory, issued by one thread, asynchronous, done in order with the
    TensorMultiplies behind it.

    source: scales of `rows` rows in chunks of 512 bytes, for 128 rows and 4 blocks along k each; those along k lie one
    behind the other, then those of the next rows (`twill.tile.interpret.block_scales.in_chunks`). target: a slot in
    tensor memory of 4 columns for each chunk: those of all rows for the first 4 blocks, then those for the next. Row r
    of 128 is in lane r % 32 of column r / 32, and in the other three quarters of the lanes.
    """

    source: SlotRef
    target: SlotRef
    rows: int


@dataclass(frozen=True)
class StoreScales(Stmt):
    """A slot of shared memory = scales [rows, blocks along k] in registers, written by all threads of the group in the
    chunks that CopyScales copies. rows, blocks: multiples of 128 and of 4."""

    operand: int
    target: SlotRef


@dataclass(frozen=True)
class LoadAccumulator(Stmt):
    """result = a slot in tensor memory, or some of its columns, read by all threads of the group, which wait for it.
    Get comes before."""

    source: SlotRef
    result: int


@dataclass(frozen=True)
class StoreAccumulator(Stmt):
    """A slot in tensor memory, or some of its columns = operand, written by all threads of the group, which wait until
    it is there. Elements of 32 bits, or of 16, two to a column."""

    operand: int
    target: SlotRef
