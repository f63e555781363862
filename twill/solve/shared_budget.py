"""One budget for all solves of an emission: a kernel is solved again where a schedule could not be emitted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from twill.graph.dependence import DependenceGraph
from twill.schedule.options import SolveOptions
from twill.solve.regions import is_straight

STRAIGHT = 20.0  # seconds that a solve of straight-line code has at most, if it is emitted
LEAST = 0.1  # of the budget, that a solve has however much was spent before


@dataclass
class SharedBudget:
    """Seconds for several solves, one after the other: each has what those before left of them, and at least a tenth of
    the whole, so that what the last one found can be emitted. None: no limit."""

    seconds: float | None
    now: Callable[[], float] = field(default=time.monotonic, repr=False)
    spent: float = 0.0

    @contextmanager
    def solving(self, options: SolveOptions) -> Iterator[SolveOptions]:
        """The options for the next solve, which is done inside."""
        if self.seconds is None:
            yield options
            return
        begun = self.now()
        try:
            left = max(self.seconds - self.spent, LEAST * self.seconds)
            yield options.model_copy(update={"budget": min(left, self.seconds)})
        finally:
            self.spent += self.now() - begun


def for_emission(graph: DependenceGraph, options: SolveOptions) -> SolveOptions:
    """The options of a solve for code: program instances are not fused, and straight-line code has `STRAIGHT` seconds.
    It is emitted in its own order; nothing but the number of its threads comes from the schedule."""
    options = options.unfused()
    if options.budget is None or not is_straight(graph):
        return options
    return options.model_copy(update={"budget": min(options.budget, STRAIGHT)})
