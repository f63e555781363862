"""How long the heuristic may look for a schedule: a count of placements, and a clock where there is a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def unending() -> bool:
    """Whether the time has ended: there is no limit."""
    return False


@dataclass
class Effort:
    """Placements that may still be tried: a clock that runs the same everywhere. over: whether the time has ended."""

    left: int
    over: Callable[[], bool] = unending

    def spent(self) -> bool:
        """Whether nothing may be tried any more."""
        return self.left <= 0 or self.over()
