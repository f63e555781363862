"""The budgets of a solve."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace


class OutOfBudget(Exception):
    """A question came back undecided, or could not even be put, and there is no time left."""


def unlimited() -> float | None:
    """The seconds left where there is no limit."""
    return None


@dataclass(frozen=True)
class Limits:
    """Budgets of a solve. seconds: wall clock for all of it, counted from `began` (a value of
    `time.perf_counter`; None: from when the search is made); resource_limit: z3's deterministic
    counter for each check (0: none); seed: of the solver's random choices."""

    seconds: float | None = None
    resource_limit: int = 0
    seed: int = 0
    began: float | None = None

    def left(self) -> float | None:
        """Seconds left (not below 0), or None if there is no limit."""
        if self.seconds is None:
            return None
        assert self.began is not None
        return max(0.0, self.seconds - (time.perf_counter() - self.began))

    def over(self) -> bool:
        """Whether no time is left."""
        return self.left() == 0

    def after(self, seconds: float) -> Limits:
        """From now on, so many seconds, where there is a limit."""
        return self if self.seconds is None else replace(self, seconds=seconds, began=time.perf_counter())

    def share(self, parts: int) -> Limits:
        """The same, with one part in `parts` of the seconds left."""
        left = self.left()
        if left is None or self.seconds is None:
            return self
        return replace(self, seconds=self.seconds - left + left / parts)

    def sparing(self, parts: int) -> Limits:
        """The same, without one part in `parts` of the seconds left."""
        left = self.left()
        if left is None or self.seconds is None:
            return self
        return replace(self, seconds=self.seconds - left / parts)

    def counting(self) -> Limits:
        """The same, with the clock running."""
        return self if self.began is not None else replace(self, began=time.perf_counter())
