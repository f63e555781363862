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
    """

    target: SlotRef
    a: SlotRef
    b: SlotRef
    a_transposed: bool
    b_transposed: bool
    depth: int  # k
    operand: str
    accumulate: Expr


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
