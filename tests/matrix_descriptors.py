"""Descriptors of matrices in shared memory, made in Python: the emitted code makes them on the GPU."""

from __future__ import annotations

SWIZZLES = {0: 0, 128: 2, 64: 4, 32: 6}
"""Codes by bytes."""


def matrix_descriptor(address: int, leading: int, stride: int, swizzle: int) -> int:
    """The 64 bits of one whose swizzle begins at a multiple of its pattern (1024 bytes for one of 128). address,
    leading, stride: multiples of 16 bytes. PTX ISA, "tcgen05 Shared Memory Descriptor"."""
    return address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | SWIZZLES[swizzle] << 61
