"""What the events of a loop do with the rings that they read: who waits for a slot, who gives it back, and the
positions in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twill.codegen.lower.stream import EventKey, Stream
from twill.codegen.lower.task import Place

Position = tuple[int, str, int]  # a ring, what it is used for ("put", "get", ...), and the number of the position


@dataclass(frozen=True)
class SlotUse:
    """What an event does with a ring: where it reads, whether it waits first, whether it gives the slot back at the
    end, and which positions it moves on."""

    position: Position
    get: bool
    consumed: bool
    advance: tuple[Position, ...]


@dataclass(frozen=True)
class RingReads:
    """The reads of one ring in a loop. events: that read it; ends: the one by which all reads are over. side: loops
    with the same share positions. place: of the task that fills it for this loop."""

    aref: int
    events: tuple[EventKey, ...]
    ends: EventKey
    side: str = "get"
    place: Place = (-1, -1, -1)

    def stages(self, stream: Stream) -> list[int]:
        """The stages of the loop that use the ring, each at a position of its own."""
        return sorted({stream.event(key).stage for key in (*self.events, self.ends)})


def most_positions(loops: Sequence[tuple[Stream, Sequence[RingReads]]]) -> dict[tuple[int, str], int]:
    """How many positions the loops of a warp group need in each ring."""
    most: dict[tuple[int, str], int] = {}
    for stream, reads in loops:
        for one in reads:
            most[one.aref, one.side] = max(most.get((one.aref, one.side), 1), len(one.stages(stream)))
    return most


def ring_uses(stream: Stream, reads: RingReads, most: int) -> dict[EventKey, SlotUse]:
    """How each event of a loop uses a ring. most: positions that some loop of the group needs, all of which this one
    moves on."""
    order = sorted({*reads.events, reads.ends}, key=lambda k: (stream.event(k).stage, stream.position(k)))
    stages, of = reads.stages(stream), (reads.aref, reads.side)
    found: dict[EventKey, SlotUse] = {}
    for number, key in enumerate(order):
        index = stages.index(stream.event(key).stage)
        last = number + 1 == len(order) or stream.event(order[number + 1]).stage != stream.event(key).stage
        mine: tuple[Position, ...] = ((*of, index),) if last else ()
        if last and index + 1 == len(stages):
            mine += tuple((*of, i) for i in range(len(stages), most))
        found[key] = SlotUse((*of, index), number == 0, key == reads.ends, mine)
    return found
