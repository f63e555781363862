"""Tiles that stay in registers as the operand A of MMAs: loaded once, multiplied in every iteration of a loop.

An MMA reads operand A from shared memory or from registers. A tile from before a loop (the queries of attention) is
read from shared memory again in every iteration: for m64n128k16 in 16 bits, 2 KiB beside the 4 KiB of B. In
registers it is read from shared memory once, and its slot is free for the next program instance at once. It costs
its registers for the whole loop. So it stays there if the budgets leave that many registers beyond what the
schedule asked for; should the compiler find no room after all, the kernel is lowered without (`twill.codegen.emit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

from twill.codegen.lower.groups import Group
from twill.codegen.lower.task import Place, Source, Task

if TYPE_CHECKING:
    from twill.codegen.lower.plan import LoweringPlan

ELEMENTS = ("bf16", "f16")  # whose operand A has the layout of an accumulator, two elements a register
PER_REGISTER = 2


def choose_register_operands(plan: LoweringPlan, asked: Sequence[Group]) -> frozenset[Place]:
    """The loads that stay in registers. asked: the groups with the registers that the schedule gives them."""
    room = {group.id: group.registers - before.registers for group, before in zip(plan.groups, asked, strict=True)}
    found: set[Place] = set()
    for place in sorted(plan.tasks):
        task = plan.tasks[place]
        if task.node.kind != "load" or task.region in plan.loops:
            continue
        groups = {group for reader in readers(plan, place) for group in reader.groups}
        need = registers(plan, task)
        fits = need > 0 and all(room[group] >= need for group in groups)
        if groups and fits and all(only_multiplied(plan, reader, place) for reader in readers(plan, place)):
            room |= {group: room[group] - need for group in groups}
            found.add(place)
    return frozenset(found)


def registers(plan: LoweringPlan, task: Task) -> int:
    """Registers of each thread that a loaded tile takes as operand A; 0 if it cannot be one."""
    cell = plan.last_step(task).results[0]
    shape, target = plan.tiles.core(cell), plan.tiles.target
    if target.mma is None or plan.flat.cells[cell].type.element not in ELEMENTS or len(shape) != 2:
        return 0
    if shape[0] % target.mma.rows or shape[1] % target.mma.depth:
        return 0
    return prod(shape) // (PER_REGISTER * target.threads)


def readers(plan: LoweringPlan, place: Place) -> Iterator[Task]:
    """The tasks that read a loaded tile from shared memory."""
    for task in plan.tasks.values():
        if any(plan.place_of(source) == place for source in plan.slot_sources(task)):
            yield task


def only_multiplied(plan: LoweringPlan, task: Task, place: Place) -> bool:
    """Whether a task of a loop reads a tile as operand A, as it is, and as nothing else."""
    if task.node.kind != "mma" or task.region not in plan.loops or plan.parts(task) != (task.block,):
        return False
    step = plan.last_step(task)
    uses = [at for at, source in plan.sources(step, task.block) if plan.place_of(source) == place]
    return uses == [0] and not plan.tiles.is_transposed(step.operands[0])


def is_held(plan: LoweringPlan, task: Task, position: int, source: Source) -> bool:
    """Whether an MMA finds an operand in the registers of a tile that stays there."""
    return position == 0 and task.node.kind == "mma" and plan.place_of(source) in plan.register_operands
