"""The cursors of one warp group: its positions in rings, one for each stage that uses a ring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from twill.codegen.lower.stream import Stream
from twill.codegen.warp.expression import Expr
from twill.codegen.warp.program import Advance, Aref, Consumed, Cursor, Get, If, Stmt

EventKey = tuple[str, int]


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

    def after(self) -> list[Stmt]:
        """Behind the reads, once they are over."""
        back: list[Stmt] = [Consumed(self.cursor)] if self.consumed else []
        if self.only is not None:
            back = [If(self.only, tuple(back))] if back else []
        return [*back, *(Advance(c) for c in self.advance)]


@dataclass
class Cursors:
    """Makes cursors; `side` is "put" for the producer and "get" for a consumer."""

    numbers: Iterator[int]
    cursors: list[Cursor] = field(default_factory=list)
    known: dict[tuple[int, str, int], int] = field(default_factory=dict)
    most: dict[tuple[int, str], int] = field(default_factory=dict)  # aref, side -> cursors that some loop needs

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

    def uses(
        self, aref: Aref, reads: list[EventKey], ends: EventKey, stream: Stream, side: str = "get",
        only: Expr | None = None,
    ) -> dict[EventKey, CursorUse]:  # fmt: skip
        """How each event of a loop uses a ring. reads: the events that read it; ends: that by which all are over.
        side: loops with the same share cursors. only: as in `Use`.

        A loop moves on the cursors that it does not need, too, if another loop does: ask for all loops of the group
        twice, and the second answers are right.
        """
        order = sorted({*reads, ends}, key=lambda k: (stream.event(k).stage, stream.position(k)))
        stages = sorted({stream.event(key).stage for key in order})
        self.most[aref.id, side] = max(self.most.get((aref.id, side), 1), len(stages))
        found: dict[EventKey, CursorUse] = {}
        for number, key in enumerate(order):
            index = stages.index(stream.event(key).stage)
            last = number + 1 == len(order) or stream.event(order[number + 1]).stage != stream.event(key).stage
            mine: tuple[int, ...] = (self.of(aref, side, index),) if last else ()
            if last and index + 1 == len(stages):
                mine += tuple(self.of(aref, side, i) for i in range(len(stages), self.most[aref.id, side]))
            found[key] = CursorUse(self.of(aref, side, index), number == 0, key == ends, mine, only)
        return found
