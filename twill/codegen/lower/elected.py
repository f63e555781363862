"""What one thread does for all of a program instance, as statements: `elected` of `twill.tile.vocabulary`.

Where several warp groups work on an instance, one of them has the thread. The others tell it through a ring of one slot
that they have come so far, with what they access in front of the operation behind them, and learn through another one
that it is over, and what was found out::

    group with the thread                    another group
    ---------------------                    -------------
                                             its stores are over; publish "before"
    get "before"
    elect: sync; one thread; sync
    publish "told"                           get "told"; what was found out
    accesses behind it                       accesses behind it

A group that issues loads, and has none behind the operation, need not wait for it: it goes on with the next instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twill import exc
from twill.codegen.lower.reductions import scratch_of
from twill.codegen.lower.scalar_loops import lowered_region
from twill.codegen.targets.base import LANES
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Element, Expr, Local
from twill.tile.program import TileProgram, loops_of, reads
from twill.tile.uniformity import written_bases
from twill.tile.vocabulary import ELECTED

if TYPE_CHECKING:
    from twill.codegen.lower.operations import LoweringScope
    from twill.codegen.lower.placement import Placement
    from twill.codegen.lower.task import Task
    from twill.tile.flat import Step

WORDS = 2  # of each result in the scratch buffer
LEAST = 4  # words of a ring's slot


def is_elected(task: Task, scope: LoweringScope) -> bool:
    """Whether a task is one thread's."""
    return scope.flat.steps[task.steps[-1]].op.kind == ELECTED


def others(task: Task, rings: Placement) -> tuple[int, ...]:
    """The groups besides the one with the thread that wait for it: all but those that issue loads, and none behind it
    in the instance."""
    plan, (own,) = rings.plan, task.groups
    found = []
    for group in plan.groups:
        filled = {ring.key[0] for ring in rings.by_place.values() if ring.aref.producer == group.id}
        if group.id != own and (not group.issuer or any(region > task.region for region in filled)):
            found.append(group.id)
    return tuple(found)


def refuse_unordered(step: Step, scope: LoweringScope) -> None:
    """Raises UnsupportedInKernel for what several warp groups, or two CTAs, would have to bring into an order with it
    that is not done here."""
    plan, rings = scope.plan, scope.tools.rings
    program = plan.wired.program
    what = ""
    if scope.at.loop is not None:
        what = "in a loop of a kernel with tl.dot"
    elif plan.tiles.target.has_tensor_memory:
        what = f"in a kernel with tl.dot for {plan.machine.name}"
    elif rings.sharing is not None:
        what = "in a kernel of two CTAs that load tiles together"
    written = written_bases(program)
    for ring in rings.by_place.values():
        task = plan.tasks[ring.key]
        if task.node.kind == "load" and task.node.tensor in written:
            what = f"beside a tile of `{task.node.tensor}`, which the kernel writes and loads into shared memory"
    if what:
        raise exc.UnsupportedInKernel(
            f"an atomic operation whose old value or order counts, {what}", file=program.file, line=step.op.line,
            hint="the atomic operation, and what depends on it, outside of loops, or in a kernel of its own",
        )  # fmt: skip


def elect(task: Task, step: Step, scope: LoweringScope, bulk: bool) -> None:
    """The group's part that has the thread; appends to the scope. bulk: whether it may have stores of the TMA that are
    not over."""
    plan, tools = scope.plan, scope.tools
    if len(plan.groups) > 1:
        refuse_unordered(step, scope)
    operands = [_operand(step, number, scope) for number in range(len(step.op.operands))]
    names = [tools.scalars.elected(result, step.op) for result in step.op.results]
    lowered = lowered_region(step.op, operands, tools.scalars.fresh)
    told = told_results(step, scope)
    every = zip(step.op.results, names, lowered.results, strict=True)
    used = [(name, value) for result, name, value in every if result in told and isinstance(name, Local)]
    waiting = others(task, tools.rings)
    ring = _told(task, len(used), waiting, scope) if waiting else None
    if ring is not None:
        scratch: int | None = ring.buffers[0] if used else None
    else:
        scratch = scratch_of(scope, (WORDS * len(used),), "i32") if used else None
    barrier = tools.memory.barrier(f"group {tools.own}", (tools.own,)).id
    line = step.op.line
    for group in waiting:
        before = tools.cursors.of(_before(task, group, scope), "get")
        scope.made += [ir.Get(before, line=line), ir.Consumed(before), ir.Advance(before)]
    if len(plan.groups) > 1:
        scope.made += _over(bulk, line)
    put = tools.cursors.of(ring, "put") if ring is not None else -1
    scope.made += [ir.Acquire(put, line=line)] if ring is not None else []
    names_used, values = tuple(name.name for name, _ in used), tuple(value for _, value in used)
    scope.made.append(ir.Elect(barrier, names_used, values, scratch, lowered.stmts, line=line))
    scope.made += [ir.Publish(put), ir.Advance(put)] if ring is not None else []
    if len(plan.groups) > 1:
        scope.made.append(ir.ProxyFence(memory=True, line=line))


def follow(task: Task, step: Step, scope: LoweringScope, bulk: bool) -> None:
    """The part of another group; appends to the scope."""
    tools, line = scope.tools, step.op.line
    waiting = others(task, tools.rings)
    if tools.own not in waiting:
        return
    told = told_results(step, scope)
    names = [tools.scalars.elected(result, step.op) for result in step.op.results if result in told]
    used = [name for name in names if isinstance(name, Local)]
    ring = _told(task, len(used), waiting, scope)
    put, get = tools.cursors.of(_before(task, tools.own, scope), "put"), tools.cursors.of(ring, "get")
    scope.made += [
        ir.Acquire(put, line=line),
        *_over(bulk, line),
        ir.Publish(put),
        ir.Advance(put),
        ir.Get(get, line=line),
    ]
    if used:
        words = tuple(name.name for name in used)
        elements = tuple(name.element for name in used)
        scope.made.append(ir.ReceiveElected(ir.SlotRef(ring.buffers[0], get), words, elements, line=line))
    scope.made += [ir.Consumed(get), ir.Advance(get), ir.ProxyFence(memory=True, line=line)]


def told_results(step: Step, scope: LoweringScope) -> frozenset[int]:
    """The results that anything reads."""
    return _read(scope.plan.wired.program).intersection(step.op.results)


def _over(bulk: bool, line: int) -> Iterator[ir.Stmt]:
    """What a group stored is over, and seen by whoever learns that the group has come so far."""
    if bulk:
        yield ir.BulkWait(0, read=False, line=line)
    yield ir.ProxyFence(memory=True, line=line)


def _told(task: Task, words: int, waiting: tuple[int, ...], scope: LoweringScope) -> ir.Aref:
    """The ring through which others learn of what one thread did."""
    groups = {group.id: group for group in scope.plan.groups}
    empty = sum(1 if groups[g].issuer else groups[g].threads // LANES for g in waiting)
    size = max(LEAST, WORDS * words)
    return _ring(f"told {task.place[0]} {task.place[1]}", size, task.groups[0], waiting, empty, scope)


def _before(task: Task, group: int, scope: LoweringScope) -> ir.Aref:
    """The ring through which a group says that it has come so far. Nothing is in it but its barriers."""
    own = {one.id: one for one in scope.plan.groups}[task.groups[0]]
    name = f"before {task.place[0]} {task.place[1]} of {group}"
    return _ring(name, LEAST, group, task.groups, own.threads // LANES, scope)


def _ring(name: str, size: int, producer: int, consumers: tuple[int, ...], empty: int, scope: LoweringScope) -> ir.Aref:
    """The ring of that name, of one slot; made by whoever asks first. empty: arrivals that give a slot back."""
    memory = scope.tools.memory
    for known in memory.arefs:
        if known.name == name:
            return known
    group = next(one for one in scope.plan.groups if one.id == producer)
    full = 1 if group.issuer else group.threads // LANES
    buffer = memory.buffer(name, (size,), "i32", 1)
    return memory.aref(name, (buffer.id,), producer, consumers, "registers", (full, empty))


def _read(program: TileProgram) -> frozenset[int]:
    """The values that anything reads."""
    found = {value for op in program.ops() for value in reads(op)}
    for loop in loops_of(program.body):
        found |= {loop.lower, loop.upper, loop.step}
        found |= {value for carry in loop.carried for value in (carry.init, carry.yielded)}
    return frozenset(found)


def _operand(step: Step, number: int, scope: LoweringScope) -> Expr:
    """An operand: a uniform scalar, or the one element of a fragment."""
    value = step.op.operands[number]
    if step.operands[number] < 0:
        return scope.scalars.value(value, scope.at)
    held = scope.registers.fragment(scope.fragment(step.operands[number]))
    return Element(held.id, held.element)
