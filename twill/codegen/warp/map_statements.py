"""The statements of warp programs that make tensor maps in memory of a CTA."""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.statements import Stmt


@dataclass(frozen=True)
class MakeMap(Stmt):
    """The elected thread makes the tensor map of its group, in the one of its two places where the map is not now.
    Copies may still be on their way through the map as it is, but not through the one before it (Settle, BulkWait).
    scratch: a buffer of 128 bytes, for this map alone. sizes, strides, offset: as of a TensorMapSpec, of scalars
    that are known here; where a size is below 1, nothing is inside of the tensor."""

    map: int
    scratch: int
    sizes: tuple[Expr | None, ...]
    strides: tuple[Expr, ...]
    offset: Expr


@dataclass(frozen=True)
class ShowMaps(Stmt):
    """Copies that the elected thread issues from here on see its maps as it has made them: a release of all, and an
    acquire of each."""

    maps: tuple[int, ...]


@dataclass(frozen=True)
class Settle(Stmt):
    """The producer of a ring of transport "tma" waits until every slot is full that it had filled when it came by here
    the last time."""

    cursor: int
