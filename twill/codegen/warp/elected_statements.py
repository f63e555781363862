"""What one thread of a warp group does for all of them: atomic operations whose old value, or whose order, counts.

The grammar and what all statements do together are in `twill.codegen.warp.program`.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.resources import SlotRef
from twill.codegen.warp.statements import Stmt


@dataclass(frozen=True)
class Elect(Stmt):
    """Sync; one thread runs `body` (Let, ScalarLoop, Atomic) and writes what `values` are there; Sync; in all threads,
    for the rest of the block, `names` are what it wrote. Without names the second Sync is all that follows.

    Accesses of global memory in front of it, by any thread of the group, come before the body's atomic operations that
    release, those behind it after the ones that acquire. scratch: a buffer with two words for each name, which others
    read before its own first Sync only; barrier: of the group.
    """

    barrier: int
    names: tuple[str, ...] = ()
    values: tuple[Expr, ...] = ()
    scratch: int | None = None
    body: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class ReceiveElected(Stmt):
    """In a warp group beside the one with the Elect: for the rest of the block, `names` are what that one's thread
    wrote to the slot, its `scratch`. elements: their types."""

    source: SlotRef
    names: tuple[str, ...]
    elements: tuple[str, ...]


@dataclass(frozen=True)
class Atomic(Stmt):
    """Element `index` (i64) of `argument` becomes what `combine` makes of it and `values`, at once for the whole GPU;
    `name` is what it was, for the rest of the block. combine and order: as of `twill.tile.vocabulary.ATOMIC`, with
    "umax" and "umin" of unsigned integers. Where `condition` does not hold nothing is touched, and `name` is 0."""

    name: str
    argument: str
    index: Expr
    values: tuple[Expr, ...]
    combine: str
    element: str
    order: str
    condition: Expr | None = None
