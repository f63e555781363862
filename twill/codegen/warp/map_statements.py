"""The statements of warp programs that make tensor maps in memory of a CTA."""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.expression import Expr
from twill.codegen.warp.statements import Stmt


@dataclass(frozen=True)
class MakeMap(Stmt):
    """The elected thread makes the tensor map of its group: copies that it issues see sizes, strides and offset as they
    are now, until it is made again. No copy through the map as it was may still be on its way (Settle, BulkWait).
    scratch: a buffer of 128 bytes that only this thread uses. sizes, strides, offset: as of a TensorMapSpec, of scalars
    that are known here; where a size is below 1, nothing is inside of the tensor."""

    map: int
    scratch: int
    sizes: tuple[Expr | None, ...]
    strides: tuple[Expr, ...]
    offset: Expr


@dataclass(frozen=True)
class Settle(Stmt):
    """The producer of a ring of transport "tma" waits until every slot that it has filled is full."""

    cursor: int
