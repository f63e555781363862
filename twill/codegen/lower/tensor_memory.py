"""Accumulators in tensor memory, where the target has it: who issues MMAs, and who reads what they make.

One thread issues the MMAs of a loop into a slot of a ring in tensor memory, the accumulator of one program instance.
When they are complete the slot is published, and a computing warp group that the schedule does not have, the epilogue,
reads it into registers and does what follows the loop, while the MMAs of the next instance go to another slot.

Emitted so far are kernels whose loops load tiles by the TMA and multiply them; everything else is refused at its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from twill import exc
from twill.codegen.lower.groups import Group
from twill.codegen.lower.operations import Tools, outside
from twill.codegen.lower.placement import Ring
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.scalars import OUTSIDE
from twill.codegen.lower.task import Task
from twill.codegen.warp.expression import Expr, Number, less
from twill.codegen.warp.program import (
    Acquire,
    Advance,
    Consumed,
    Fill,
    Get,
    If,
    LoadAccumulator,
    Publish,
    SlotRef,
    Stmt,
)
from twill.machine.description import Machine
from twill.tile.flat import UNIFORM, FlatCarry

EPILOGUE = "epilogue"
ELEMENT = "f32"  # of an accumulator that is emitted
LANE_BYTES = 4  # of a column of one lane (PTX ISA, "Tensor Memory Addressing")
SLOTS = 2  # of a ring of accumulators: one is read while the other is added to


def with_epilogue(
    groups: Sequence[Group], group_of: Mapping[int, int], threads: int
) -> tuple[tuple[Group, ...], dict[int, int]]:
    """The groups of a schedule behind one that computes what follows its loops: readers of tensor memory begin with a
    warp whose number is a multiple of four, each warp reading its own quarter (PTX ISA, "tcgen05.ld")."""
    epilogue = Group(0, EPILOGUE, threads, 0, issuer=False)
    moved = (replace(group, id=group.id + 1, registers=0) for group in groups)
    return (epilogue, *moved), {old: new + 1 for old, new in group_of.items()}


def refuse_not_emitted(plan: LoweringPlan) -> None:
    """Raises UnsupportedInKernel, at its line, for what is not emitted with accumulators in tensor memory yet."""
    for task in plan.tasks.values():
        name, kind, inside = task.node.name or task.node.kind, task.node.kind, task.region in plan.loops
        if inside and kind not in ("load", "mma"):
            _refuse(plan, task, f"`{name}` is computed in a loop beside its products")
        if inside and kind == "load" and task.node.transport != "tma":
            _refuse(plan, task, f"`{name}` is loaded by threads")
        if kind == "mma":
            _refuse_product(plan, task, f"`{name}`")


def _refuse_product(plan: LoweringPlan, task: Task, name: str) -> None:
    element = plan.flat.cells[plan.flat.steps[task.steps[-1]].results[0]].type.element
    if task.region not in plan.loops:
        _refuse(plan, task, f"{name} is a product outside of loops")
    if element != ELEMENT:
        _refuse(plan, task, f"{name} is accumulated in {element}")
    if any(plan.tasks[plan.place_of(source)].node.kind != "load" for source in plan.slot_sources(task)):
        _refuse(plan, task, f"{name} multiplies what the kernel computes")


def _refuse(plan: LoweringPlan, task: Task, what: str) -> None:
    target = plan.tiles.target.name
    raise exc.UnsupportedInKernel(
        f"{what}, which is not emitted for {target} yet", file=plan.wired.program.file, line=task.node.line,
        hint="loops that load tiles by descriptors and multiply them, with everything else behind them; or another "
        "machine (`--machine`)",
    )  # fmt: skip


def accumulator_slots(plan: LoweringPlan, columns: int) -> int:
    """Slots of each ring of accumulators. columns: of all of them, one slot each. Raises UnsupportedInKernel."""
    whole = most_columns(plan.machine, plan.tiles.target.mma.rows if plan.tiles.target.mma else 1)
    if columns > whole:
        raise exc.UnsupportedInKernel(
            f"accumulators of {columns} columns are more than tensor memory has, {whole}", file=plan.wired.program.file,
            hint="smaller tiles",
        )  # fmt: skip
    return SLOTS if SLOTS * columns <= whole else 1


def most_columns(machine: Machine, lanes: int) -> int:
    """Columns of tensor memory."""
    return machine.capacity("tmem") // (lanes * LANE_BYTES)


def accumulates(task: Task, number: Expr, tools: Tools) -> Expr:
    """Whether an MMA adds to what its slot has, in iteration `number`: the first one overwrites it. Raises
    UnsupportedInKernel if it would add to anything else than its own accumulator, from zero on."""
    plan = tools.plan
    step = plan.flat.steps[task.steps[-1]]
    if len(step.operands) < 3:
        return Number(0, "i1")
    cell = step.operands[2]
    carry = plan.wired.wiring.argument.get(plan.tiles.view(cell).base)
    if carry is None:
        if not is_zero(cell, task, tools):
            _refuse(plan, task, f"`{task.node.name}` adds to another tile than its own accumulator")
        return Number(0, "i1")
    source = plan.source(carry.yielded, task.block)
    if source is None or plan.place_of(source) != task.place or not begins_with_zero(carry, task, tools):
        _refuse(plan, task, f"`{task.node.name}` adds to more than its own accumulator from zero on")
    return less(Number(0), number)


def begins_with_zero(carry: FlatCarry, task: Task, tools: Tools) -> bool:
    """Whether a carried value is zero in front of its loop."""
    if carry.init != UNIFORM:
        return is_zero(carry.init, task, tools)
    value = tools.plan.flat.cells[carry.argument].value
    return _zero(tools.scalars.value(tools.plan.wired.uniformity.carries[value].init, OUTSIDE))


def is_zero(cell: int, task: Task, tools: Tools) -> bool:
    """Whether every element of a cell is known to be 0."""
    constant = outside(tools, task.block, []).constant(tools.plan.tiles.view(cell).base)
    return constant is not None and _zero(constant)


def _zero(value: Expr) -> bool:
    return isinstance(value, Number) and value.value == 0


# -- around a loop --------------------------------------------------------------------------------


def acquire_accumulators(rings: Sequence[Ring], tools: Tools) -> list[Stmt]:
    """In front of a loop: the slots of its accumulators are waited for."""
    return [Acquire(tools.cursors.of(ring.aref, "put")) for ring in rings]


def publish_accumulators(rings: Sequence[Ring], trip: Expr, tools: Tools) -> list[Stmt]:
    """Behind a loop: its accumulators are handed on when its MMAs are complete. trip: its iterations."""
    made: list[Stmt] = []
    for ring in rings:
        cursor = tools.cursors.of(ring.aref, "put")
        made += [Publish(cursor, behind=True), Advance(cursor)]
    return [If(less(Number(0), trip), tuple(made))] if made else []


def load_accumulators(rings: Sequence[Ring], trip: Expr, tools: Tools) -> list[Stmt]:
    """Behind a loop, in a group that reads its accumulators: into registers; zeros of a loop without iterations."""
    made: list[Stmt] = []
    for ring in rings:
        task = tools.plan.tasks[ring.key]
        cursor, line = tools.cursors.of(ring.aref, "get"), task.node.line
        variable = tools.registers.of((task.steps[-1], task.block))
        element = tools.registers.fragment(variable).element
        read = (Get(cursor), LoadAccumulator(SlotRef(ring.buffer.id, cursor), variable, line=line), Consumed(cursor))
        zeros = (Fill(variable, Number(0, element), line=line),)
        made.append(If(less(Number(0), trip), (*read, Advance(cursor)), zeros))
    return made
