"""What each of several CTAs that share an SM has of its shared memory, and what a launch has of its registers."""

from __future__ import annotations

from twill.machine.description import Machine

RESERVED = 1024  # bytes of each CTA that CUDA keeps for itself (CUDA C++ programming guide, compute capability 9.0)
MOST_REGISTERS = 256  # of a thread, as setmaxnreg counts them ([ptx] setmaxnreg: from 24 to 256)


def share(capacity: int, ctas: int) -> int:
    """Bytes of shared memory of each of `ctas` CTAs, of an SM that has `capacity` for one."""
    return (capacity + RESERVED) // ctas - RESERVED


def register_pool(threads: int, machine: Machine) -> int:
    """Registers that setmaxnreg can move between the warp groups of a CTA with so many threads: those of its launch, a
    multiple of the granule, equal in all threads (64,512 of 65,536 for 384 threads)."""
    granule = machine.register_file.granule
    each = int(machine.register_file.registers.value) // threads // granule * granule
    return threads * min(MOST_REGISTERS, each)
