"""Which MMAs a warp group issues one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

from twill.codegen.lower.task import Task


def mmas_around(task: Task, tasks: Sequence[Task], interval: int) -> list[tuple[Task, int]]:
    """The MMAs around one of a loop with nothing else of the group between, and when they start, seen from it (cycles
    of its iteration). tasks: the group's in the loop."""
    others = [other for other in tasks if other is not task]
    behind = sorted(((other.start - task.start) % interval, n) for n, other in enumerate(others))
    before = sorted(((task.start - other.start) % interval, n) for n, other in enumerate(others))
    found: list[tuple[Task, int]] = []
    for sign, neighbours in ((1, behind), (-1, before)):
        for cycles, n in neighbours:
            if others[n].node.kind != "mma":
                break
            found.append((others[n], task.start + sign * cycles))
    return found
