"""The shared memory, rings, tensor maps and barriers of a warp program under construction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from twill import exc
from twill.codegen.warp.layout import THREADS
from twill.codegen.warp.program import Aref, Buffer, NamedBarrier, TensorMapSpec, WarpProgram
from twill.codegen.warp.resources import COLUMN_BITS
from twill.graph.work import BITS, moved_bytes

PANEL = 128  # bytes: the widest swizzle
BARRIER_BYTES = 16  # bytes of the two mbarriers of a slot
WIDEST = 8  # bytes of the widest element of a tensor map


def alignment(swizzle: int) -> int:
    """Of a buffer, in bytes. swizzle: as a buffer has it."""
    return 8 * swizzle if swizzle else PANEL  # of the TMA, which is asked for vectors, too


def element_bytes(element: str) -> int:
    """Bytes of one element in memory (an i1 takes one)."""
    return max(8, BITS[element]) // 8


def held_bytes(element: str) -> int:
    """Bytes of registers that one element takes while threads move it: neighbours of 16 bits share a register, bytes do
    not."""
    size = element_bytes(element)
    return 4 if size == 1 else size


@dataclass
class SharedMemoryPlan:
    """Hands out numbers; `place` lays the buffers out at the end. threads: of a warp group."""

    file: str
    buffers: list[Buffer] = field(default_factory=list)
    arefs: list[Aref] = field(default_factory=list)
    maps: list[TensorMapSpec] = field(default_factory=list)
    barriers: list[NamedBarrier] = field(default_factory=list)
    threads: int = THREADS

    @staticmethod
    def of(program: WarpProgram) -> SharedMemoryPlan:
        """That of a program, to which more is added."""
        held = ([*program.buffers], [*program.arefs], [*program.maps], [*program.barriers])
        alone = program.groups[0].threads if len(program.groups) == 1 else THREADS
        return SharedMemoryPlan(program.program.file, *held, threads=alone)

    def buffer(self, name: str, shape: tuple[int, ...], element: str, slots: int) -> Buffer:
        """A new ring of tiles."""
        size = prod(shape) * element_bytes(element)
        panel = swizzle = 0
        if len(shape) == 2:
            row = shape[1] * element_bytes(element)
            swizzle = next((s for s in (128, 64, 32) if row % s == 0), 0)
            panel = swizzle or row
        align = alignment(swizzle)
        stride = -(-size // align) * align
        made = Buffer(len(self.buffers), name, shape, element, swizzle, panel, slots, stride, -1)
        self.buffers.append(made)
        return made

    def tensor_buffer(
        self, name: str, shape: tuple[int, ...], element: str, slots: int, first: int, stride: int
    ) -> Buffer:
        """A new ring of tiles in tensor memory. first: its first column; stride: columns from slot to slot."""
        row = shape[-1] * element_bytes(element)
        size = stride * shape[0] * COLUMN_BITS // 8
        made = Buffer(len(self.buffers), name, shape, element, 0, row, slots, size, first, tensor=True)
        self.buffers.append(made)
        return made

    def aref(
        self, name: str, buffers: tuple[int, ...], producer: int, consumers: tuple[int, ...], transport: str,
        arrivals: tuple[int, int], shared: bool = False, pair: bool = False,
    ) -> Aref:  # fmt: skip
        """A ring over buffers of equal depth. arrivals: that complete a phase of the full and the empty barrier.
        shared: by the CTAs of a cluster. pair: of products of both."""
        held = [self.buffers[b] for b in buffers]
        size = sum(moved_bytes(b.shape, b.element) for b in held)
        tx = size if transport == "tma" else 0
        slots, number = held[0].slots, len(self.arefs)
        made = Aref(number, name, buffers, slots, producer, consumers, transport, tx, *arrivals, shared, pair)
        self.arefs.append(made)
        return made

    def with_depth(self, aref: Aref, slots: int) -> Aref:
        """The ring with that many slots, and its buffers too."""
        made = replace(aref, depth=slots)
        self.arefs[aref.id] = made
        for number in aref.buffers:
            self.buffers[number] = replace(self.buffers[number], slots=slots)
        return made

    def barrier(self, name: str, groups: tuple[int, ...]) -> NamedBarrier:
        """A named barrier among warp groups; the same one for the same name."""
        for known in self.barriers:
            if known.name == name:
                return known
        made = NamedBarrier(len(self.barriers), name, groups, self.threads * len(groups))
        self.barriers.append(made)
        return made

    def map(self, made: TensorMapSpec) -> TensorMapSpec:
        """The map with a number; equal ones are one."""
        for known in self.maps:
            if replace(known, id=-1) == replace(made, id=-1):
                return known
        made = replace(made, id=len(self.maps))
        self.maps.append(made)
        return made

    def used(self) -> int:
        """Bytes of all rings so far, before alignment of the next."""
        return self._layout()[1]

    def place(self, capacity: int, own: int = 0) -> tuple[tuple[Buffer, ...], int]:
        """Buffers with offsets, and the bytes of everything. own: bytes that the program needs besides rings and their
        barriers. Raises SharedMemoryFull."""
        offsets, end = self._layout()
        total = end + BARRIER_BYTES * sum(a.depth for a in self.arefs) + own
        if total > capacity:
            held = ", ".join(f"{b.name} {b.slots} x {b.bytes}" for b in self.buffers if not b.tensor)
            raise exc.SharedMemoryFull(
                f"the warp program needs {total} bytes of shared memory of {capacity}: {held}",
                needed=total,
                capacity=capacity,
                file=self.file,
                hint="smaller tiles",
            )
        return tuple(replace(b, offset=offsets.get(b.id, b.offset)) for b in self.buffers), total

    def _layout(self) -> tuple[dict[int, int], int]:
        """Offsets by buffer, the most aligned first, and the end."""
        offsets: dict[int, int] = {}
        end = 0
        for b in sorted((b for b in self.buffers if not b.tensor), key=lambda b: (-b.swizzle, b.id)):
            align = alignment(b.swizzle)
            offsets[b.id] = -(-end // align) * align
            end = offsets[b.id] + b.bytes * b.slots
        return offsets, -(-end // 16) * 16
