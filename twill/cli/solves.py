"""The solves of one `twill emit`: each question is answered once, and the first one by a process that is made ready for
it while the kernel is read, and that works while the emitter is loaded."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from types import TracebackType

from twill.cli import emit
from twill.forked import ForkedAnswer
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.solve.shared_budget import SharedBudget

Question = tuple[DependenceGraph, Machine, Namespace]
Solve = Callable[[DependenceGraph, Machine, Namespace], Schedule]


class Solves:
    """Solves with one budget. seconds: of it (None: no limit). processes: with more than one, another one is ready for
    the first question while the kernel is still read."""

    def __init__(self, seconds: float | None, processes: int) -> None:
        self.budget = SharedBudget(seconds)
        self.known: list[tuple[Question, Schedule]] = []
        self.first: Question | None = None
        self.forked = ForkedAnswer(self.solved, processes, load_solver)

    def solved(self, graph: DependenceGraph, machine: Machine, arguments: Namespace) -> Schedule:
        """One solve."""
        return emit.solved(graph, machine, arguments, self.budget)

    def begin(self, first: Question) -> None:
        """What is asked first, or never: worked on from now on, until the end of a `with`."""
        self.first = first
        self.forked.about(*first)

    def __enter__(self) -> Solves:
        self.forked.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.forked.__exit__(kind, error, trace)

    def __call__(self, graph: DependenceGraph, machine: Machine, arguments: Namespace) -> Schedule:
        """The schedule of a question. Raises what `twill.cli.emit.solved` raises."""
        asked = graph, machine, arguments
        found = next((schedule for known, schedule in self.known if known == asked), None)
        if found is None:
            found = self._first() if asked == self.first else self.solved(*asked)
            self.known.append((asked, found))
        return found

    def _first(self) -> Schedule:
        """What is worked on already."""
        self.first = None
        try:
            return self.forked.answer()
        finally:
            self.budget.spent += self.forked.seconds


def load_solver() -> None:
    """Imports what a solve takes."""
    import twill.cli.progress
    import twill.cli.solve
    import twill.cli.store_lookup
    import twill.solve.pipeline  # noqa: F401
