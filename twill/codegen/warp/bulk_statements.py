"""The statements of warp programs that store by the TMA, in bulk groups of the elected thread."""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.resources import SlotRef
from twill.codegen.warp.statements import Stmt


@dataclass(frozen=True)
class TmaStore(Stmt):
    """One box, `source` -> global; asynchronous, in the bulk group of the elected thread. combine: "", or of a
    reduction. passing: nobody reads it here, so it leaves the L2 cache first."""

    map: int
    coordinates: tuple[Expr, ...]
    source: SlotRef
    combine: str = ""
    passing: bool = False


@dataclass(frozen=True)
class BulkCommit(Stmt):
    """The elected thread's bulk stores since the last commit become one group."""


@dataclass(frozen=True)
class BulkWait(Stmt):
    """The elected thread waits until at most `pending` bulk groups are unfinished; read: until they have read
    shared memory only. Other threads learn of it by a Sync after it."""

    pending: int
    read: bool
