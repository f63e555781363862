"""Rings of tensor memory as Gluon allocates them, and those that lie over others.

Gluon gives columns to whole rings. One that lies over another (`twill.codegen.lower.tensor_columns`)
is that ring again with tiles of its own: `each` tiles are as wide as a slot of the other, and the one at `first` is
used.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill import exc
from twill.codegen.warp.program import Buffer, WarpProgram


@dataclass(frozen=True)
class HostedRing:
    """host: the buffer that a ring lies over. each: its tiles to a slot of the host; first: the one that is used."""

    host: Buffer
    each: int
    first: int


def hosted(program: WarpProgram, buffer: Buffer) -> HostedRing | None:
    """What a ring in tensor memory lies over; None if it has columns of its own. Errors: NotInGluon."""
    if not buffer.tensor:
        return None
    for other in program.buffers:
        if other.tensor and other.id != buffer.id and other.width > buffer.width and _overlap(other, buffer):
            each, odd = divmod(other.width, buffer.width)
            first, within = divmod(buffer.offset - other.offset, buffer.width)
            same = (buffer.slots, buffer.stride) == (other.slots, other.width)
            if odd or within or not same or not 0 <= first < each:
                raise exc.NotInGluon(f"`{buffer.name}` lies over `{other.name}` as no tile of Gluon can")
            return HostedRing(other, each, first)
    return None


def _overlap(one: Buffer, other: Buffer) -> bool:
    ends = [ring.offset + (ring.slots - 1) * ring.stride + ring.width for ring in (one, other)]
    return one.offset < ends[1] and other.offset < ends[0]
