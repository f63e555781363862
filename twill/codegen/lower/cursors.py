"""The cursors of one warp group: its positions in rings, one for each stage that uses a ring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twill.codegen.lower.ring_uses import SlotUse
from twill.codegen.warp.expression import Expr
from twill.codegen.warp.program import Advance, Aref, Consumed, Cursor, Get, If, Stmt


@dataclass(frozen=True)
class CursorUse:
    """What an event does with a ring: cursor, whether it waits first, what it does last. only: when it gives the slot
    back, if not always."""

    cursor: int
    get: bool
    consumed: bool
    advance: tuple[int, ...]
    only: Expr | None = None

    def before(self) -> list[Stmt]:
        """In front of the reads."""
        return [Get(self.cursor)] if self.get else []

    def after(self, behind: bool = False) -> list[Stmt]:
        """Behind the reads, once they are over. behind: they are over when the group's MMAs are."""
        back: list[Stmt] = [Consumed(self.cursor, behind=behind)] if self.consumed else []
        if self.only is not None:
            back = [If(self.only, tuple(back))] if back else []
        return [*back, *(Advance(c) for c in self.advance)]


@dataclass
class Cursors:
    """Makes cursors; `side` is "put" for the producer and "get" for a consumer."""

    numbers: Iterator[int]
    most: Mapping[tuple[int, str], int] = field(default_factory=dict)  # aref, side -> cursors that some loop needs
    cursors: list[Cursor] = field(default_factory=list)
    known: dict[tuple[int, str, int], int] = field(default_factory=dict)

    def of(self, aref: Aref, side: str, index: int = 0) -> int:
        """The cursor of that ring, side and index."""
        key = (aref.id, side, index)
        if key not in self.known:
            made = Cursor(next(self.numbers), f"{aref.name}_{side}{index or ''}", aref.id)
            self.cursors.append(made)
            self.known[key] = made.id
        return self.known[key]

    def every(self, aref: Aref, side: str) -> list[int]:
        """All cursors of that ring and side."""
        return [self.of(aref, side, index) for index in range(self.most.get((aref.id, side), 1))]

    def use(self, use: SlotUse, arefs: Sequence[Aref], only: Expr | None) -> CursorUse:
        """What an event does, by cursors."""
        cursor, *advance = (self.of(arefs[aref], side, index) for aref, side, index in (use.position, *use.advance))
        return CursorUse(cursor, use.get, use.consumed, tuple(advance), only)
