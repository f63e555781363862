"""The objectives behind I, in their order: copies, crossing, length, registers, each proven minimal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twill.smt.assignment import Assignment
from twill.smt.objectives import (
    crossing_at_most,
    forced_crossing,
    length_at_most,
    registers_at_most,
    shortest_length,
)
from twill.smt.questions import Questions

Tell = Callable[[str, int, int], None]


@dataclass
class Descent:
    """Begins at the best assignment of `questions`, whose I is minimal.

    tell: is called with an objective's name and the bounds between which it lies.
    """

    questions: Questions
    tell: Tell
    proven: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Minimize each objective given those before it; `proven` grows. Raises OutOfBudget."""
        q = self.questions
        ii = q.found.ii
        e = q.about((ii, ii))
        self.proven.append("ii")
        shortest = shortest_length(e)
        fewest = max(1, -(-shortest // ii))
        self._minimize("copies", fewest, lambda a: a.copies, lambda k: length_at_most(e, k * ii))
        self._minimize("crossing", forced_crossing(e), lambda a: a.crossing, lambda k: crossing_at_most(e, k))
        self._minimize("length", shortest, lambda a: a.length, lambda k: length_at_most(e, k))
        least = min(s.context.min_registers for s in e.slots)
        granule = e.machine.register_file.granule
        self._minimize("registers", least, q.problem.registers, lambda k: registers_at_most(e, k), granule)

    def _minimize(
        self,
        name: str,
        lower: int,
        value: Callable[[Assignment], int],
        at_most: Callable[[int], str],
        granule: int = 1,
    ) -> None:
        """Minimize value(assignment) >= lower, then fix it.

        The lower bound first, then by bisection; after a refusal just below what is known, which is
        often the optimum already.
        """
        q = self.questions
        upper = value(q.found)
        probe = lower
        while lower < upper:
            self.tell(name, lower, upper)
            found = q.ask(f"{name} <= {probe}", q.found.copies, [at_most(probe)])
            middle = lower + (upper - lower) // 2 // granule * granule
            if found is not None:
                upper = value(found)
                probe = lower + (upper - lower) // 2 // granule * granule
                continue
            below = upper - granule
            lower = probe + granule
            probe = below if probe in (middle, lower - granule) and probe != below else middle
            probe = max(lower, min(probe, upper - granule))
        q.keep([at_most(upper)])
        self.proven.append(name)
