"""Rings of tensor memory as Gluon allocates them, and those that lie over others.

Gluon gives columns to whole rings. One that lies over another (`twill.codegen.lower.tensor_columns`)
is that ring again with tiles of its own: `each` tiles are as wide as a slot of the other, and the one at `first` is
used.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill import exc
from twill.codegen.print.gluon.scalars import TYPES
from twill.codegen.print.gluon.writer import PythonWriter
from twill.codegen.warp.program import Buffer, WarpProgram

REINTERPRETED = "tensor_memory_as"
"""The function that gives a ring another element and shape: versions differ in its name."""


@dataclass(frozen=True)
class HostedRing:
    """host: the buffer that a ring lies over. each: its tiles to a slot of the host; first: the one that is used."""

    host: Buffer
    each: int
    first: int

    def index(self, slot: str) -> str:
        """Where in the ring the tile of a slot is."""
        inner = slot if slot.isalnum() else f"({slot})"
        text = str(int(slot) * self.each) if slot.isdigit() else f"{self.each} * {inner}" if self.each > 1 else slot
        return f"{text} + {self.first}" if self.first else text


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


def memory_layout(shape: tuple[int, ...]) -> str:
    """A tile in tensor memory, a lane for each row and a column for each of its columns of 32 bits."""
    return f"TensorMemoryLayout(block=({shape[0]}, {shape[1]}), col_stride=1)"


def print_ring(name: str, buffer: Buffer, slots: str, over: HostedRing | None, host: str, out: PythonWriter) -> None:
    """The line that makes a ring. slots: how many. host: the name of the ring that it lies over."""
    tiles = slots if over is None else over.index(slots) if over.each == 1 else f"{over.each} * {slots}"
    given = [f"gl.{TYPES[buffer.element]}", f"[{tiles}, {', '.join(map(str, buffer.shape))}]"]
    if over is None:
        out.call(f"{name} = allocate_tensor_memory", [*given, memory_layout(buffer.shape)])
        return
    out.call(f"{name} = {REINTERPRETED}", [host, *given, memory_layout(buffer.shape)])


def _overlap(one: Buffer, other: Buffer) -> bool:
    ends = [ring.offset + (ring.slots - 1) * ring.stride + ring.width for ring in (one, other)]
    return one.offset < ends[1] and other.offset < ends[0]
