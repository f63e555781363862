"""What each of several CTAs that share an SM has of its shared memory."""

from __future__ import annotations

RESERVED = 1024  # bytes of each CTA that CUDA keeps for itself (CUDA C++ programming guide, compute capability 9.0)


def share(capacity: int, ctas: int) -> int:
    """Bytes of shared memory of each of `ctas` CTAs, of an SM that has `capacity` for one."""
    return (capacity + RESERVED) // ctas - RESERVED
