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

    target: a slot in tensor memory. a: a slot, whose tile is [k, rows] if a_transposed. b: as of Multiply. accumulate:
    whether it adds to what is there (i1), or overwrites it. operand: element type of A and B.
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
