"""The objectives behind I, in their order: copies, crossing, length, registers, each proven minimal."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twill.smt.assignment import Assignment
from twill.smt.encoding import Encoding
from twill.smt.objectives import (
    crossing_at_most,
    crossing_sums,
    length_at_most,
    registers_at_most,
    shortest_length,
)
from twill.smt.questions import Questions
from twill.smt.relaxation import Relaxation

FEW = 4  # candidates of which the last but one is asked about first

Notify = Callable[[str, int, int], None]


@dataclass
class Descent:
    """Begins at the best assignment of `questions`, whose I is minimal.

    notify: is called with an objective's name and the bounds between which it lies. relaxation: at this I, where
    questions have been hard.
    """

    questions: Questions
    notify: Notify
    relaxation: Relaxation | None = None
    proven: list[str] = field(default_factory=list)
    given: str = ""  # what questions are asked under, in words

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
        self._minimize("copies", copies, lambda a: a.copies, lambda x, k: length_at_most(x, k * ii))
        self._minimize("crossing", crossing_sums(e), lambda a: a.crossing, crossing_at_most)

    def detail(self) -> None:
        """Length and registers."""
        q = self.questions
        ii = q.found.ii
        e = q.about((ii, ii))
        shortest = shortest_length(e)
        lengths = range(shortest, q.found.copies * ii + 1)
        self._minimize("length", lengths, lambda a: a.length, length_at_most)
        least = min(s.context.min_registers for s in e.slots)
        budgets = range(least, q.problem.registers(q.found) + 1, e.machine.register_file.granule)
        self._minimize("registers", budgets, q.problem.registers, registers_at_most)

    def _minimize(
        self,
        name: str,
        candidates: Sequence[int],
        value: Callable[[Assignment], int],
        at_most: Callable[[Encoding, int], str],
    ) -> None:
        """Minimize value(assignment), which is one of `candidates` (rising), then fix it.

        Just below what is known first, because compaction often leaves nothing to improve, and again after
        every refusal; after an improvement in the middle of what is left. Where the relaxation tells what may be
        reached at best, and that is far, in the middle first.
        """
        q = self.questions
        e = q.encoding
        upper = bisect_left(candidates, value(q.found))
        lower = self._excluded(name, candidates[:upper], at_most)  # places in `candidates`
        far = self.relaxation is not None and upper - lower > FEW
        probe = (lower + upper) // 2 if far else upper - 1
        while lower < upper:
            self.notify(name, candidates[lower], value(q.found))
            if (
                q.ask(f"{name} <= {candidates[probe]}{self.given}", q.found.copies, [at_most(e, candidates[probe])])
                is None
            ):
                lower, probe = probe + 1, upper - 1
            else:
                upper = bisect_left(candidates, value(q.found))
                probe = (lower + upper) // 2
        q.keep([at_most(e, value(q.found))])
        if self.relaxation is not None:
            self.relaxation.keep(at_most(self.relaxation.encoding, value(q.found)))
        self.proven.append(name)

    def _excluded(self, name: str, candidates: Sequence[int], at_most: Callable[[Encoding, int], str]) -> int:
        """How many of the first of `candidates` the relaxation excludes."""
        q, r = self.questions, self.relaxation
        if r is None or not candidates:
            return 0
        begun = time.perf_counter()
        count = r.excluded(candidates, lambda k: at_most(r.encoding, k), q.limits.left)
        if count:
            question, seconds = f"{name} <= {candidates[count - 1]}{self.given}", time.perf_counter() - begun
            q.record(r.ii, q.found.copies, question, "infeasible", r.solver, seconds)
        return count
