"""Products of two CTAs: which tiles each of them has a half of.

Neighbouring program instances along an axis of the launch grid are the rows of one product, if they multiply by the
same B. Each CTA of a pair then loads its own rows of A and half of B's columns; the first one issues the products,
which read both halves and leave each CTA its own rows of the result. So B is loaded once for two instances, and takes
half the room in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from twill import exc
from twill.codegen.lower import multicast
from twill.codegen.lower.block_scales import sources_of
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Place, Task
from twill.codegen.lower.tensor_use import TensorUse, use_of
from twill.codegen.warp.expression import Expr

COLUMNS = 16  # of a half, at least and in steps: rows of a swizzle's pattern, columns of its narrowest panel


def pairing(plan: LoweringPlan) -> multicast.Sharing:
    """The axis along which neighbours multiply together, and the tiles of B. Raises UnsupportedInKernel."""
    products = [task for task in plan.tasks.values() if plan.is_in_tensor_memory(task)]
    if not products:
        refuse(plan, "there is no product that two CTAs could make together", 0)
    halved: dict[Place, int] = {}
    whole: set[Place] = set()
    alike: set[Place] = set()
    for task in products:
        if use_of(plan, task) is not TensorUse.SUM:
            refuse(plan, f"`{task.node.name}` is read or changed by threads in its loop", task.node.line)
        whole |= {place for place, _ in operands(plan, task, 0)}
        if (scales := sources_of(plan, task)) is not None:  # of its rows of A; and all of B's, which both CTAs load
            whole |= {plan.place_of(source) for source in scales}
            alike.add(plan.place_of(scales[1]))
        for place, axis in operands(plan, task, 1):
            if halved.setdefault(place, axis) != axis:
                refuse(plan, f"{named(plan, place)} is multiplied as it is and transposed", task.node.line)
            if plan.tiles.core(plan.flat.steps[plan.tasks[place].steps[-1]].results[0])[axis] % (
                multicast.CTAS * COLUMNS
            ):
                refuse(plan, f"halves of {named(plan, place)} have no multiple of {COLUMNS} columns", task.node.line)
    for place in sorted(whole | {*halved}):
        node = plan.tasks[place].node
        if node.kind == "load" and node.transport != "tma":
            refuse(plan, f"{named(plan, place)} is loaded by threads, in each CTA by its own", node.line)
        if place in whole and place in halved:
            refuse(plan, f"{named(plan, place)} is operand A and operand B", plan.tasks[place].node.line)
        if any(reader not in products for reader in plan.readers(place)):
            refuse(plan, f"{named(plan, place)} is not only multiplied", plan.tasks[place].node.line)
    reasons: list[str] = []
    found: list[multicast.Sharing] = []
    for axis in multicast.asked_for(plan):
        same = sorted(alike.union(halved))
        unlike = list(differences(plan, products, same, axis))
        if not unlike:
            found.append(multicast.Sharing(axis, {}, halved, frozenset(whole), condition(plan, same, axis)))
        reasons += unlike
    if found:
        return min(found, key=lambda one: one.together is not None)
    refuse(plan, f"neighbouring program instances do not multiply by one tile ({'; '.join(dict.fromkeys(reasons))})", 0)
    raise AssertionError


def operands(plan: LoweringPlan, task: Task, position: int) -> Iterator[tuple[Place, int]]:
    """The loads of an operand of a product, and the axis of their tile that the result has, too."""
    cell = plan.last_step(task).operands[position]
    for block in plan.parts(task):
        source = plan.source(cell, block)
        if source is not None:
            yield plan.place_of(source), position ^ plan.tiles.is_transposed(cell)


def differences(plan: LoweringPlan, products: list[Task], same: list[Place], axis: int) -> Iterator[str]:
    """Why neighbours along an axis do not multiply by the same tiles. same: the loads of those."""
    for place in same:
        agreed = multicast.agreement(plan, plan.tasks[place], axis)
        if isinstance(agreed, multicast.Unlike):
            yield f"{named(plan, place)} along axis {axis}: {agreed.why}"
        elif multicast.of_other_axes(agreed, axis):
            yield f"{named(plan, place)} along axis {axis}: its address is another one for some of them"
    for task in products:
        bounds = [value for bound in multicast.loops(plan, task.region) for value in bound]
        if any(multicast.depends(plan, value, axis) for value in bounds):
            yield f"`{task.node.name}` along axis {axis}: the bounds of its loop are others"


def condition(plan: LoweringPlan, same: list[Place], axis: int) -> Expr | None:
    """What holds where neighbours multiply by the same tiles; None if they always do."""
    agreed = (multicast.agreement(plan, plan.tasks[place], axis) for place in same)
    return multicast.every(one for one in agreed if not isinstance(one, multicast.Unlike))


def named(plan: LoweringPlan, place: Place) -> str:
    """A load, for people."""
    node = plan.tasks[place].node
    return f"`{node.name or node.tensor}`"


def refuse(plan: LoweringPlan, what: str, line: int) -> None:
    """Raises UnsupportedInKernel."""
    raise exc.UnsupportedInKernel(
        what, file=plan.wired.program.file, line=line,
        hint="rows by one axis of the launch grid and columns by another one (`row = tl.program_id(0) * BLOCK_M`, "
        "`column = tl.program_id(1) * BLOCK_N`); or emit without `--cluster`",
    )  # fmt: skip
