"""Lower bounds on the initiation interval of a costed graph, before any solver runs.

`lower_bounds(graph, machine)` gives the four of them (`twill.schedule.document.Bounds`) with the witness of the
largest: the instructions, kernel lines and cycles that make a smaller I impossible. Each bound is
proven in the docstring of its function, from the rules of `docs/model.md`.
"""

from __future__ import annotations

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.document import Bounds
from twill.zlp.issue import issue_bound
from twill.zlp.lifetime import memory_bound
from twill.zlp.recurrence import recurrence_bound
from twill.zlp.resource import resource_bound


def lower_bounds(graph: CostedGraph, machine: Machine) -> Bounds:
    """All bounds, in cycles; 0 where a bound says nothing. Raises ImpossibleCycle (twill.exc)."""
    resource = resource_bound(graph)
    recurrence = recurrence_bound(graph)
    issue = issue_bound(graph, machine)
    known = max(resource.value, recurrence.value, issue.value, 1)
    memory = memory_bound(graph, machine, known)
    strongest = max((resource, recurrence, memory, issue), key=lambda bound: bound.value)
    return Bounds(
        resource=resource.value,
        recurrence=recurrence.value,
        memory=memory.value,
        issue=issue.value,
        witness=strongest.witness,
    )
