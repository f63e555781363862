"""Statements in which the threads of a warp group, or program instances, have something of one another's elements:
reductions, scans, rearrangements, histograms, sums of parts.

What they do together with others is in `twill.codegen.warp.program`.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.statements import Attributes, Stmt

LAST_PART = "last_part"  # a scalar that SumParts defines


@dataclass(frozen=True)
class Reduce(Stmt):
    """Reduce along `axis`. Accumulator axis 1 -> rows, or parts of them, axis 0 -> columns; Blocked (all of it) ->
    Uniform. Parts of rows ("add", axis 1) -> rows. combine, attributes (signed, propagate_nan): as in
    `twill.tile.vocabulary`.

    scratch: a buffer of f32 or i32 (at least 512 bytes times the registers of the result) if it crosses warps, with the
    group's own `barrier`: all write, Sync, all read. Who writes the scratch again needs another Sync before.
    """

    operand: int
    result: int
    axis: int
    combine: str
    scratch: int | None = None
    barrier: int | None = None
    attributes: Attributes = ()


@dataclass(frozen=True)
class Scan(Stmt):
    """Each element of the result is what `combine` makes of the operand's elements along `axis` up to it; reverse: from
    it on. Both have one layout. combine, attributes (signed, propagate_nan): as in `twill.tile.vocabulary`.

    scratch: a buffer with room for the tile, in elements of 4 bytes or of its own 8. All write it, Sync by the group's
    own `barrier`, each warp scans lines, Sync, all read. Who writes the scratch again needs another Sync before.
    """

    operand: int
    result: int
    axis: int
    combine: str
    scratch: int
    barrier: int
    reverse: bool = False
    attributes: Attributes = ()


@dataclass(frozen=True)
class Rearrange(Stmt):
    """result = elements of the operands, which have its type: "rearrange" of `twill.tile.vocabulary`. index: a tile
    that lies as the result does, whose integers below `extent` move each place by `along` elements ("gather"). scratch:
    a buffer with room for the operands. All write it, Sync by the group's own `barrier`, all read. Who writes it again
    needs another Sync before. None where every thread has what it needs (`twill.codegen.warp.ownership`)."""

    operands: tuple[int, ...]
    result: int
    first: int
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    scratch: int | None = None
    barrier: int | None = None
    index: int | None = None
    along: int = 0
    extent: int = 0


@dataclass(frozen=True)
class Histogram(Stmt):
    """Element n of the result, a vector of i32, is how many elements of the operand are n, where `mask` is true (None:
    everywhere): "histogram" of `twill.tile.vocabulary`. Operand and mask have one layout. scratch: a buffer with a word
    for each element of the result. All write zeros, Sync by the group's own `barrier`, all add, Sync, all read. Who
    writes it again needs another Sync before."""

    operand: int
    result: int
    scratch: int
    barrier: int
    mask: int | None = None


@dataclass(frozen=True)
class SumParts(Stmt):
    """Partial sums of several program instances meet in global memory; defines the scalar `last_part` (i1) for the rest
    of the block: whether this instance came last. There, result = the sum of the operands of all of them, in the order
    of their `part`; elsewhere the result is the operand. Both are of f32 and have one layout.

    slot: which sum it is (i32): equal for the `parts` instances that meet, and for no others; each has another part,
    from 0; of one part its operand is the sum, and nothing meets. scratch: a word of shared memory with the group's own
    `barrier`: Sync, one thread writes it, Sync, all read. Who writes it again needs another Sync.
    """

    operand: int
    result: int
    slot: Expr
    part: Expr
    parts: Expr
    scratch: int
    barrier: int
