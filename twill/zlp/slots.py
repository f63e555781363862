"""Slots: the warp groups that a machine can host, numbered.

The numbering is the same for the solver, the heuristic and every loop of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.machine.description import Context, Machine


@dataclass(frozen=True)
class Slot:
    """A warp group that may be used; slots of one context are interchangeable."""

    id: int
    context: Context


def slots_of(machine: Machine) -> tuple[Slot, ...]:
    """`max_groups` slots for every context, in the machine's order; ids are positions."""
    contexts = [c for c in machine.contexts for _ in range(c.max_groups)]
    return tuple(Slot(k, c) for k, c in enumerate(contexts))
