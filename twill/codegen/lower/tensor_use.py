"""What becomes of the result of an MMA in tensor memory: who else touches it, and when.

- SUM: a loop adds it up, and nobody looks at it before the loop is over.
- TILE: every iteration makes it anew, and threads read it there (S of attention).
- UPDATED: a loop adds it up, and threads change it in every iteration in front of the MMA (O of attention, rescaled).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from twill.codegen.lower.task import Place, Task
from twill.graph.accumulator import accumulators

if TYPE_CHECKING:
    from twill.codegen.lower.plan import LoweringPlan


class TensorUse(Enum):
    """See the top of this file."""

    SUM = "sum"
    TILE = "tile"
    UPDATED = "updated"


def updaters(plan: LoweringPlan) -> Mapping[tuple[int, int], int]:
    """By (region, node): the elementwise nodes that change an accumulator in tensor memory, and the MMA that adds to
    what they make."""
    if not plan.tiles.target.has_tensor_memory:
        return {}
    found: dict[tuple[int, int], int] = {}
    for region in (region for region in plan.wired.graph.regions if region.kind == "loop"):
        kinds = {node.id: node.kind for node in region.nodes}
        for nodes in accumulators(region):
            mmas = [node for node in nodes if kinds[node] == "mma"]
            found |= {(region.id, node): mmas[0] for node in nodes if kinds[node] == "elementwise"}
    return found


def updater_of(plan: LoweringPlan, task: Task) -> Task | None:
    """The task that changes the accumulator of an MMA in every iteration; None if none does."""
    for (region, node), mma in plan.updaters.items():
        if (region, mma) == task.place[:2]:
            return plan.tasks[region, node, task.block]
    return None


def use_of(plan: LoweringPlan, task: Task) -> TensorUse:
    """Of an MMA with its result in tensor memory."""
    if updater_of(plan, task) is not None:
        return TensorUse.UPDATED
    return TensorUse.TILE if readers_inside(plan, task.place) else TensorUse.SUM


def readers_inside(plan: LoweringPlan, place: Place) -> list[Task]:
    """The tasks of its own loop that read what an MMA makes in registers."""
    return [reader for reader in plan.readers(place, slots=False) if reader.region == place[0]]


def readers_behind(plan: LoweringPlan, place: Place) -> list[Task]:
    """The tasks outside of its loop that do."""
    return [reader for reader in plan.readers(place, slots=False) if reader.region != place[0]]
