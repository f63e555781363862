"""Which accesses of memory atomic operations bring into an order, whoever makes them (PTX ISA, "Causality Order").

Agents are program instances, or CTAs. An atomic operation that releases leaves at its address all that its agent knows
by then; one that acquires learns what was left there. Vector clocks: an agent's epoch ends when it releases, and an
access of it is known to whoever knows its epoch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from twill.tile.interpret.arrays import np

Array = Any  # np.ndarray
RELEASES, ACQUIRES = ("release", "acq_rel"), ("acquire", "acq_rel")
Clock = dict[int, int]


def join(one: Clock, other: Clock) -> None:
    """What one knows who knows both."""
    for agent, epoch in other.items():
        one[agent] = max(one.get(agent, 0), epoch)


@dataclass
class HappensBefore:
    """Of one launch."""

    epochs: dict[int, int] = field(default_factory=lambda: defaultdict(lambda: 1))
    known: dict[int, Clock] = field(default_factory=lambda: defaultdict(dict))
    left: dict[tuple[str, int], Clock] = field(default_factory=lambda: defaultdict(dict))

    def atomic(self, agent: int, tensor: str, address: int, order: str) -> None:
        """An atomic operation of an agent on an element of a tensor."""
        if order in ACQUIRES:
            join(self.known[agent], self.left[tensor, address])
        if order in RELEASES:
            join(self.left[tensor, address], {**self.known[agent], agent: self.epochs[agent]})
            self.epochs[agent] += 1

    def unordered(self, agent: int, others: Array, epochs: Array) -> Array:
        """Where an access of another agent (-1: of nobody, -2: of several) in an epoch of its is not known to this one
        to have come first."""
        strange = (others != -1) & (others != agent)
        if not strange.any():
            return strange
        known = self.known[agent]
        found = strange.copy()
        for other in np.unique(others[strange]):
            if other >= 0:
                found &= ~((others == other) & (epochs <= known.get(int(other), 0)))
        return found
