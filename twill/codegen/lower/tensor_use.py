"""What becomes of the result of an MMA in tensor memory: who else touches it, and when.

- SUM: a loop adds it up, and nobody looks at it before the loop is over.
- TILE: every iteration makes it anew, and threads read it there (S of attention).
- UPDATED: a loop adds it up, and threads change it in every iteration in front of the MMA (O of attention, rescaled).
- STATE: a loop adds it up, and threads read it in every iteration (the state of linear attention).
- TERM: an MMA of the same iteration adds to it, and nobody else looks at it: it is in the slot of that one.
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
    STATE = "state"
    TERM = "term"


EVERY_ITERATION = (TensorUse.TILE, TensorUse.STATE)
"""Those whose slots an MMA fills in every iteration for threads that read them."""


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
    if continued_by(plan, task) is not None:
        return TensorUse.TERM
    if readers_inside(plan, task.place):
        return TensorUse.STATE if is_summed(plan, task) else TensorUse.TILE
    return TensorUse.SUM


def is_summed(plan: LoweringPlan, task: Task) -> bool:
    """Whether an MMA adds to what it made in the iteration before."""
    step = plan.last_step(task)
    carry = plan.wired.wiring.argument.get(plan.tiles.view(step.operands[2]).base) if len(step.operands) > 2 else None
    source = plan.source(carry.yielded, task.block) if carry is not None else None
    return source is not None and plan.place_of(source) == task.place


def continues(plan: LoweringPlan, task: Task) -> Task | None:
    """The MMA of the same iteration and issuer to whose result an MMA adds, if nobody else reads that."""
    step = plan.last_step(task)
    source = plan.source(step.operands[2], task.block) if len(step.operands) > 2 else None
    found = plan.tasks.get(plan.place_of(source)) if source is not None and not source.distance else None
    if found is None or found.region != task.region or not plan.is_in_tensor_memory(found):
        return None
    alone = found.place != task.place and found.groups == task.groups and not plan.readers(found.place)
    return found if alone else None


def continued_by(plan: LoweringPlan, task: Task) -> Task | None:
    """The MMA that adds to what an MMA makes, alone and in the same iteration."""
    mmas = [t for t in plan.tasks.values() if t.region == task.region and plan.is_in_tensor_memory(t)]
    found = [t for t in mmas if t.place != task.place and continues(plan, t) == task]
    return found[0] if len(found) == 1 else None


def begun_by(plan: LoweringPlan, task: Task) -> Task | None:
    """The MMA of an earlier loop with whose sum that of an MMA begins, if nobody else reads it: both add to one
    slot."""
    step = plan.last_step(task)
    carry = plan.wired.wiring.argument.get(plan.tiles.view(step.operands[2]).base) if len(step.operands) > 2 else None
    begin = plan.source(carry.init, task.block) if carry is not None and not carry.pure else None
    found = plan.tasks.get(plan.place_of(begin)) if begin is not None else None
    if found is None or found.region == task.region or not plan.is_in_tensor_memory(found):
        return None
    alone = found.groups == task.groups and found.block == task.block and not plan.readers(found.place)
    sums = all(updater_of(plan, one) is None and is_summed(plan, one) for one in (found, task))
    return found if alone and sums and not readers_inside(plan, task.place) else None


def sum_of(plan: LoweringPlan, task: Task) -> list[Task]:
    """The MMAs of loops that follow one another which make the sum of an MMA's slot, the first one first."""
    mmas = [t for _, t in sorted(plan.tasks.items()) if plan.is_in_tensor_memory(t)]
    made = [task]
    while (before := begun_by(plan, made[0])) is not None:
        made.insert(0, before)
    while (after := next((t for t in mmas if begun_by(plan, t) == made[-1]), None)) is not None:
        made.append(after)
    return made


def last_of(plan: LoweringPlan, task: Task) -> Task:
    """The MMA in whose slot an MMA works: the last of those that add to its result, or itself."""
    while (after := continued_by(plan, task)) is not None:
        task = after
    return task


def readers_inside(plan: LoweringPlan, place: Place) -> list[Task]:
    """The tasks of its own loop that read what an MMA makes in registers."""
    return [reader for reader in plan.readers(place, slots=False) if reader.region == place[0]]


def readers_behind(plan: LoweringPlan, place: Place) -> list[Task]:
    """The tasks outside of its loop that do."""
    return [reader for reader in plan.readers(place, slots=False) if reader.region != place[0]]
