"""The objectives behind I, in their order: copies, crossing, length, registers, each proven minimal."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twill.smt.assignment import Assignment
from twill.smt.objectives import (
    crossing_at_most,
    crossing_sums,
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
        self.structure()
        self.detail()

    def structure(self) -> None:
        """Copies and crossing."""
        q = self.questions
        ii = q.found.ii
        e = q.about((ii, ii))
        self.proven.append("ii")
        shortest = shortest_length(e)
        fewest = max(1, -(-shortest // ii))
        copies = range(fewest, q.found.copies + 1)
        self._minimize("copies", copies, lambda a: a.copies, lambda k: length_at_most(e, k * ii))
        self._minimize("crossing", crossing_sums(e), lambda a: a.crossing, lambda k: crossing_at_most(e, k))

    def detail(self) -> None:
        """Length and registers."""
        q = self.questions
        ii = q.found.ii
        e = q.about((ii, ii))
        shortest = shortest_length(e)
        lengths = range(shortest, q.found.copies * ii + 1)
        self._minimize("length", lengths, lambda a: a.length, lambda k: length_at_most(e, k))
        least = min(s.context.min_registers for s in e.slots)
        budgets = range(least, q.problem.registers(q.found) + 1, e.machine.register_file.granule)
        self._minimize("registers", budgets, q.problem.registers, lambda k: registers_at_most(e, k))

    def _minimize(
        self,
        name: str,
        candidates: Sequence[int],
        value: Callable[[Assignment], int],
        at_most: Callable[[int], str],
    ) -> None:
        """Minimize value(assignment), which is one of `candidates` (rising), then fix it.

        Just below what is known first, because compaction often leaves nothing to improve, and again after
        every refusal; after an improvement in the middle of what is left.
        """
        q = self.questions
        lower, upper = 0, bisect_left(candidates, value(q.found))  # places in `candidates`
        probe = upper - 1
        while lower < upper:
            self.tell(name, candidates[lower], value(q.found))
            if q.ask(f"{name} <= {candidates[probe]}", q.found.copies, [at_most(candidates[probe])]) is None:
                lower, probe = probe + 1, upper - 1
            else:
                upper = bisect_left(candidates, value(q.found))
                probe = (lower + upper) // 2
        q.keep([at_most(value(q.found))])
        self.proven.append(name)
