"""Memory: global buffers with their bounds, shared memory, parameters, and where each lies among generic addresses."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twill.codegen.verify.ptx.findings import Stopped
from twill.ptx.arrays import highest, lowest, some

Array = Any  # np.ndarray

SHARED = 1 << 48  # generic addresses of shared memory begin here
PARAMETERS = 1 << 49
LOCAL = 1 << 50
WINDOW = 1 << 40  # bytes of such a window
FIRST = 0x7000_0000_0000 >> 4  # where global buffers begin
GAP = 1 << 16  # bytes at least between two buffers
PAGE = 512  # what buffers are aligned to
RESERVED = 1024  # bytes of shared memory that the system has before the kernel's
RANK = 24  # shared addresses of a certain CTA of the cluster have its number + RANK_0 from this bit on; of one's own, 0
RANK_0 = 16  # of all clusters the lowest bits are those of the rank, which programs clear and exchange, as on hardware


def padded(data: bytes | Array) -> Array:
    """A copy as bytes, with room for whole words behind it."""
    flat = (
        np.frombuffer(data, np.uint8)
        if isinstance(data, bytes)
        else np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    )
    made = np.zeros(-(-len(flat) // 16) * 16 + 16, np.uint8)
    made[: len(flat)] = flat
    return made


@dataclass
class GlobalBuffer:
    """Global memory from `start` on. bytes: with padding; size: without."""

    name: str
    start: int
    size: int
    bytes: Array
    views: dict[int, Array] = field(default_factory=dict)

    def words(self, size: int) -> Array:
        """As unsigned numbers of that many bytes."""
        if size not in self.views:
            self.views[size] = self.bytes.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size])
        return self.views[size]


class GlobalMemory:
    """All global memory of a launch."""

    def __init__(self) -> None:
        self.buffers: list[GlobalBuffer] = []
        self.starts: list[int] = []
        self.changes = 0  # stores so far, and atomic operations that changed something
        self.next = FIRST

    def add(self, name: str, data: bytes | Array) -> int:
        """A new buffer with a copy of `data`; its address."""
        made = padded(data)
        size = len(data) if isinstance(data, bytes) else data.nbytes
        start = self.next
        self.buffers.append(GlobalBuffer(name, start, size, made))
        self.starts.append(start)
        self.next = (start + len(made) + GAP + PAGE - 1) // PAGE * PAGE
        return start

    def find(self, addresses: Array, size: int) -> tuple[GlobalBuffer, Array] | None:
        """The one buffer of accesses of `size` bytes, and their offsets; None if they are in several.

        Stopped: bounds, alignment.
        """
        low, high = lowest(addresses), highest(addresses)
        buffer = self.holding(low)
        if high + size > buffer.start + buffer.size:
            if high < buffer.start + buffer.size or len(addresses) == 1:
                raise Stopped("bounds", f"{high:#x} is beyond {_extent(buffer)}")
            self.holding(high)
            return None
        offsets = (addresses - np.uint64(buffer.start)).astype(np.int64)
        if size > 1 and some(offsets & size - 1):
            raise Stopped("alignment", f"address {low:#x} is no multiple of {size}")
        return buffer, offsets

    def holding(self, address: int) -> GlobalBuffer:
        """The buffer of an address. Stopped: bounds."""
        number = bisect_right(self.starts, address) - 1
        if number < 0 or address >= self.starts[number] + self.buffers[number].size:
            near = f"; the nearest buffer is {_extent(self.buffers[max(number, 0)])}" if self.buffers else ""
            raise Stopped("bounds", f"nothing lies at address {address:#x}{near}")
        return self.buffers[number]

    def load(self, addresses: Array, size: int) -> Array:
        """Words of 1 to 8 bytes. Stopped: bounds, alignment."""
        found = self.find(addresses, size)
        if found is not None:
            buffer, offsets = found
            return buffer.words(size)[offsets // size]
        return np.concatenate([self.load(addresses[i : i + 1], size) for i in range(len(addresses))])

    def store(self, addresses: Array, size: int, values: Array) -> None:
        """Words of 1 to 8 bytes; of several at one address the last remains."""
        self.changes += 1
        found = self.find(addresses, size)
        if found is not None:
            buffer, offsets = found
            buffer.words(size)[offsets // size] = values
            return
        for i in range(len(addresses)):
            self.store(addresses[i : i + 1], size, values[i : i + 1])

    def read_rows(self, addresses: Array, size: int) -> Array:
        """`size` bytes from each address on, as uint8 [n, size]."""
        rows = np.empty((len(addresses), size), np.uint8)
        for row, address in zip(rows, addresses.tolist(), strict=True):
            buffer, at = self._run(address, size)
            row[:] = buffer.bytes[at : at + size]
        return rows

    def write_rows(self, addresses: Array, rows: Array) -> None:
        """The bytes of each row from its address on."""
        self.changes += 1
        for row, address in zip(rows, addresses.tolist(), strict=True):
            buffer, at = self._run(address, len(row))
            buffer.bytes[at : at + len(row)] = row

    def _run(self, address: int, size: int) -> tuple[GlobalBuffer, int]:
        buffer = self.holding(address)
        if address + size > buffer.start + buffer.size:
            raise Stopped("bounds", f"a copy of {size} bytes at {address:#x} leaves {_extent(buffer)}")
        return buffer, address - buffer.start


def _extent(buffer: GlobalBuffer) -> str:
    return f"`{buffer.name}`, {buffer.size} bytes from {buffer.start:#x}"
