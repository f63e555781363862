"""Accumulators in tensor memory, where the target has it: who issues MMAs, and who reads what they make.

One thread issues the MMAs of a loop. What a whole loop adds up goes into a slot of a ring in tensor memory, the
accumulator of one program instance; when the MMAs are complete the slot is published, and a warp group reads it into
registers and does what follows the loop. Where the schedule has no computing warp group, that is one more, the
epilogue, and the MMAs of the next instance go to another slot meanwhile. What becomes of other results is said in
`twill.codegen.lower.tensor_use`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from twill import exc
from twill.codegen.lower.block_scales import refuse_scales
from twill.codegen.lower.groups import LOADS, Group
from twill.codegen.lower.operations import Tools, outside
from twill.codegen.lower.placement import Ring
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.scalars import OUTSIDE
from twill.codegen.lower.task import Task
from twill.codegen.lower.tensor_use import (
    EVERY_ITERATION,
    TensorUse,
    continued_by,
    continues,
    last_of,
    readers_behind,
    sum_of,
    updater_of,
    use_of,
)
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, Expr, Number, less
from twill.schedule.document import Schedule
from twill.tile.flat import UNIFORM, FlatCarry
from twill.tile.uniformity import stretches

EPILOGUE = "epilogue"
ELEMENTS = ("f32", "i32")  # of an accumulator that is emitted


def with_readers(
    groups: Sequence[Group], group_of: Mapping[int, int], threads: int, schedule: Schedule
) -> tuple[tuple[Group, ...], dict[int, int]]:
    """The groups of a schedule, those that compute first: readers of tensor memory begin with a warp whose number is a
    multiple of four, each warp reading its own quarter (PTX ISA, "tcgen05.ld"). Where none computes, one that does what
    follows the loops, with registers as compiled, beside groups whose threads load. Else those that issue fill whole
    warp groups, and share one budget: registers are moved by whole warp groups. threads: of a warp group."""
    working = {group_of[op.warp_group] for op in schedule.ops if op.op not in LOADS}
    groups = [replace(group, loads=not group.issuer and group.id not in working) for group in groups]
    computing = [group for group in groups if group.computes]
    loading = [group for group in groups if group.loads]
    issuing = [group for group in groups if group.issuer]
    if not computing:
        made = [Group(-1, EPILOGUE, threads, 0, issuer=False)]
        made += [replace(group, registers=0) for group in (*loading, *issuing)]
    else:
        most = max((group.registers for group in issuing), default=0)
        issuing = [replace(group, registers=most) for group in issuing]
        if issuing:
            short = -sum(group.threads for group in issuing) % threads
            issuing[-1] = replace(issuing[-1], threads=issuing[-1].threads + short)
        made = [*computing, *loading, *issuing]
    number = {group.id: place for place, group in enumerate(made)}
    found = tuple(replace(group, id=place) for place, group in enumerate(made))
    return found, {old: number[new] for old, new in group_of.items()}


def refuse_not_emitted(plan: LoweringPlan) -> None:
    """Raises UnsupportedInKernel, at its line, for what is not emitted with accumulators in tensor memory yet."""
    for task in (task for task in plan.tasks.values() if task.node.kind == "mma"):
        refuse_scales(plan, task)
    for task in plan.tasks.values():
        name, kind = f"`{task.node.name or task.node.kind}`", task.node.kind
        if kind == "mma":
            _refuse_product(plan, task, name)
        if plan.is_updater(task):
            _refuse_update(plan, task, name)


def _refuse_product(plan: LoweringPlan, task: Task, name: str) -> None:
    cell = plan.last_step(task).results[0]
    element, shape = plan.flat.cells[cell].type.element, plan.tiles.core(cell)
    if len(shape) != 2 or not plan.tiles.target.has_result(*shape):
        sizes = " x ".join(map(str, shape))
        raise exc.UnsupportedBySchedule(
            f"{name} of a row block is {sizes}, and {plan.tiles.target.name} has {plan.tiles.target.sizes}",
            file=plan.wired.program.file, line=task.node.line, hint="other tiles, or other row blocks (`--blocks`)",
        )  # fmt: skip
    if task.region not in plan.loops:
        _refuse(plan, task, f"{name} is a product outside of loops")
    if element not in ELEMENTS:
        _refuse(plan, task, f"{name} is accumulated in {element}")
    use = use_of(plan, task)
    if use in EVERY_ITERATION and readers_behind(plan, task.place):
        _refuse(plan, task, f"{name} is read in its loop and behind it")
    after = continued_by(plan, task)
    if after is not None and not 0 <= after.start - task.start < plan.interval(task.region):
        raise exc.UnsupportedBySchedule(
            f"{name} of the next iteration begins before what is added to it is",
            file=plan.wired.program.file, line=task.node.line, hint="fewer iterations in flight",
        )  # fmt: skip
    if use is not TensorUse.TILE and task.steps[-1] in plan.amendments:
        _refuse(plan, task, f"{name} is changed by some iterations alone")


def _refuse_update(plan: LoweringPlan, task: Task, name: str) -> None:
    """A change of an accumulator must be its only one, read by the MMA alone."""
    region, mma = task.region, plan.updaters[task.place[:2]]
    others = [node for (where, node), to in plan.updaters.items() if (where, to) == (region, mma)]
    readers = plan.readers(task.place)
    if len(others) > 1 or readers or any(step in plan.amendments for step in task.steps):
        _refuse(plan, task, f"{name} is an accumulator that others read while it is changed")
    product = plan.tasks[region, mma, task.block]
    reads = [reader for reader in plan.readers(product.place, slots=False) if reader.region == region]
    if reads:
        _refuse(plan, reads[0], f"the accumulator {name} is read in its loop")


def _refuse(plan: LoweringPlan, task: Task, what: str) -> None:
    target = plan.tiles.target.name
    raise exc.UnsupportedInKernel(
        f"{what}, which is not emitted for {target} yet", file=plan.wired.program.file, line=task.node.line,
        hint="loops that load tiles by descriptors, multiply them, rescale sums and read products of an iteration; or "
        "another machine (`--machine`)",
    )  # fmt: skip


def accumulates(task: Task, number: Expr, tools: Tools) -> Expr:
    """Whether an MMA adds to what its slot has, in iteration `number`: the first one of a sum overwrites it. Raises
    UnsupportedInKernel if it would add to anything else than its own accumulator, from zero on."""
    plan, use = tools.plan, use_of(tools.plan, task)
    step = plan.last_step(task)
    if use is TensorUse.UPDATED:
        return Number(1, "i1")
    if len(step.operands) < 3:
        return Number(0, "i1")
    cell = step.operands[2]
    carry = plan.wired.wiring.argument.get(plan.tiles.view(cell).base)
    if carry is None:
        if continues(plan, task) is not None:
            return Number(1, "i1")
        if not is_zero(cell, task, tools):
            _refuse(plan, task, f"`{task.node.name}` adds to another tile than its own accumulator")
        return Number(0, "i1")
    source = plan.source(carry.yielded, task.block)
    mine = source is not None and plan.place_of(source) == last_of(plan, task).place
    earlier = sum_of(plan, task)[: sum_of(plan, task).index(task)]
    if mine and earlier:
        return Apply("or", (less(Number(0), number), ran(earlier, tools)), "i1")
    begins = initial(carry, task, tools)
    if use is TensorUse.TILE or not mine or begins is None or begins.value != 0:
        _refuse(plan, task, f"`{task.node.name}` adds to more than its own accumulator from zero on")
    return less(Number(0), number)


def ran(tasks: Sequence[Task], tools: Tools) -> Expr:
    """Whether any of the loops of these tasks has iterations."""
    loops = {number: loop for number, loop, _ in stretches(tools.plan.wired.program) if loop is not None}
    trips = [tools.scalars.trip(loops[tools.plan.wired.stretch[task.region]]) for task in tasks]
    return reduce(lambda one, other: Apply("or", (one, other), "i1"), (less(Number(0), trip) for trip in trips))


def initial(carry: FlatCarry, task: Task, tools: Tools) -> Number | None:
    """What every element of a carried value is in front of its loop; None if that is no constant."""
    if carry.init != UNIFORM:
        found = outside(tools, task.block, []).constant(tools.plan.tiles.view(carry.init).base)
    else:
        value = tools.plan.flat.cells[carry.argument].value
        found = tools.scalars.value(tools.plan.wired.uniformity.carries[value].init, OUTSIDE)
    if not isinstance(found, Number):
        return None
    element = tools.plan.flat.cells[carry.argument].type.element
    return Number(float(found.value) if element == "f32" else int(found.value), element)


def is_zero(cell: int, task: Task, tools: Tools) -> bool:
    """Whether every element of a cell is known to be 0."""
    constant = outside(tools, task.block, []).constant(tools.plan.tiles.view(cell).base)
    return isinstance(constant, Number) and constant.value == 0


def initial_of(task: Task, tools: Tools) -> Number:
    """What the accumulator of an MMA is in front of its loop. Raises UnsupportedInKernel if that is no constant."""
    plan = tools.plan
    for carry in plan.flat.carries:
        if carry.stretch != plan.wired.stretch[task.region] or carry.pure:
            continue
        source = plan.source(carry.yielded, task.block)
        if source is not None and plan.place_of(source) == task.place:
            found = initial(carry, task, tools)
            if found is not None:
                return found
    _refuse(plan, task, f"the accumulator `{task.node.name}` begins with no constant")
    raise AssertionError


# -- around a loop --------------------------------------------------------------------------------


def acquire_accumulators(rings: Sequence[Ring], trip: Expr, tools: Tools) -> list[ir.Stmt]:
    """In front of a loop: the slots of its accumulators are waited for. trip: its iterations."""
    made: list[ir.Stmt] = []
    for ring in rings:
        if sum_of(tools.plan, tools.plan.tasks[ring.key])[0].place != ring.key:
            continue
        wait = ir.Acquire(tools.cursors.of(ring.aref, "put"))
        made.append(wait if ring.aref.transport == "mma" else ir.If(less(Number(0), trip), (wait,)))
    return made


def publish_accumulators(rings: Sequence[Ring], begun: Expr, tools: Tools) -> list[ir.Stmt]:
    """Behind a loop: its accumulators are handed on when its MMAs are complete, which the group that has changed them
    in the loop waits for. begun: whether there are any."""
    made: list[ir.Stmt] = []
    for ring in rings:
        cursor, behind = tools.cursors.of(ring.aref, "put"), ring.aref.transport == "mma"
        if not behind:
            changed = tools.rings.by_place[ring.key]
            made.append(ir.Acquire(tools.cursors.of(changed.aref, "put")))
        made += [ir.Publish(cursor, behind=behind), ir.Advance(cursor)]
    return [ir.If(begun, tuple(made))] if made else []


def load_accumulators(rings: Sequence[Ring], begun: Expr, tools: Tools) -> list[ir.Stmt]:
    """Behind a loop, in a group that reads its accumulators: into registers; what they begin with where nothing was
    added to them. begun: whether something was."""
    made: list[ir.Stmt] = []
    for ring in rings:
        task = tools.plan.tasks[ring.key]
        line, variable = task.node.line, tools.registers.of(task.made)
        mine = ring.use is TensorUse.UPDATED  # whose slot it keeps until the next loop fills it
        cursor = tools.cursors.of(ring.aref, "put" if mine else "get")
        load = ir.LoadAccumulator(ir.SlotRef(ring.buffer.id, cursor), variable, line=line)
        read = (ir.Acquire(cursor), load) if mine else (ir.Get(cursor), load, ir.Consumed(cursor), ir.Advance(cursor))
        element = tools.registers.fragment(variable).element
        begins = initial_of(task, tools) if updater_of(tools.plan, task) else Number(0, element)
        made.append(ir.If(begun, read, (ir.Fill(variable, begins, line=line),)))
    return made
