"""What each of several CTAs that share an SM has of its shared memory, and what a launch has of its registers."""

from __future__ import annotations

from twill.machine.description import Machine


def share(machine: Machine, ctas: int) -> int:
    """Bytes of shared memory of each of `ctas` CTAs: the system keeps some of every one."""
    reserved = machine.emitting.reserved_shared.whole
    return (machine.capacity("shared") + reserved) // ctas - reserved


def register_pool(threads: int, machine: Machine) -> int:
    """Registers that budgets can move between the warp groups of a CTA with so many threads: those of its launch, a
    multiple of the granule, equal in all threads (64,512 of 65,536 for 384 threads). They are handed out to several
    warps at a time, one for each scheduler of the SM, so 288 threads have no more each than 384."""
    granule, together = machine.register_file.granule, machine.emitting.register_threads.whole
    whole = -(-threads // together) * together
    each = machine.register_file.registers.whole // whole // granule * granule
    return threads * min(machine.emitting.most_registers.whole, each)


def ctas_with(threads: int, registers: int, machine: Machine) -> int:
    """CTAs of so many threads that the register file holds, if each thread has so many registers (an estimate, so not
    rounded to the granule)."""
    together = machine.emitting.register_threads.whole
    return machine.register_file.registers.whole // registers // together * together // threads
