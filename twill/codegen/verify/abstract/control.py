"""Control flow of a warp group: its blocks, pipelines and program instances.

`run` is a generator that yields whenever the group waits: a `Waiting`, which says whether it may go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from twill.codegen.verify.abstract import scheduling
from twill.codegen.verify.abstract.actor import Actor, Waiting
from twill.codegen.verify.abstract.cross_tile_reuse import count_reuse
from twill.codegen.verify.abstract.made_maps import settle
from twill.codegen.verify.abstract.scalars import Scalar, evaluate, integer
from twill.codegen.verify.abstract.scheduling import instances_from
from twill.codegen.verify.abstract.shared_tiles import generic
from twill.codegen.verify.abstract.statements import execute
from twill.codegen.warp import program as ir
from twill.tile.scalar_region import MOST_TURNS


def run(actor: Actor) -> Iterator[Waiting]:
    """The start, the body for each program instance, then the finish."""
    group, scope = actor.group, actor.scope
    yield from block(actor, group.start)
    for wait in fetched_instances(actor) if group.loop is None else static_instances(actor, group.loop):
        if wait is not None:
            yield wait
            continue
        if actor.machine.program.walk:
            yield from block(actor, actor.machine.program.walk)
        else:
            yield from instance(actor)
    scope.names = {**actor.machine.common.names, ir.INSTANCES: actor.number}
    yield from block(actor, group.finish)


def instance(actor: Actor) -> Iterator[Waiting]:
    """The work of one instance, or what a group does whose turn it is not."""
    mine, of = actor.group.share
    actor.fragments.forget()
    yield from block(actor, actor.group.body if actor.number % of == mine else actor.group.skip)
    actor.number += 1
    actor.scope.names[ir.INSTANCES] = actor.number


def scalar_loop(actor: Actor, loop: ir.ScalarLoop) -> Iterator[Waiting]:
    """A loop over scalars, whose last values stay."""
    scope = actor.scope
    values = [evaluate(init, scope) for init in loop.inits]
    for _ in range(MOST_TURNS):
        scope.names.update(zip(loop.names, values, strict=True))
        if not evaluate(loop.condition, scope):
            return
        yield from again(actor)
        yield from block(actor, loop.body, lasting=True)
        values = [evaluate(value, scope) for value in loop.yields]
    raise ValueError(f"no end of a loop over scalars after {MOST_TURNS} turns")


def elect(actor: Actor, stmt: ir.Elect) -> Iterator[Waiting]:
    """What one thread does between two waits of all, and what all know then. (Whoever runs it, it is the same.)"""
    scope, names = actor.scope, dict(actor.scope.names)
    yield from actor.sync(stmt.barrier)
    actor.looked, actor.seen = False, actor.machine.tensors.changes.count
    yield from block(actor, stmt.body, lasting=True)
    values = [evaluate(value, scope) for value in stmt.values]
    scope.names = names
    if stmt.scratch is not None:
        generic(actor, ir.SlotRef(stmt.scratch), True, "what one thread tells the others", None)
        actor.machine.told[stmt.scratch] = tuple(values)
    actor.clock.tick()
    yield from actor.sync(stmt.barrier)
    if stmt.scratch is not None:
        generic(actor, ir.SlotRef(stmt.scratch), False, "what one thread tells the others", None)
    actor.clock.tick()
    scope.names.update(zip(stmt.names, values, strict=True))
    if actor.machine.preempt:
        yield Waiting(lambda: True, lambda: "nothing", actor.line, gives_way=True)


def again(actor: Actor) -> Iterator[Waiting]:
    """Where a loop goes on that has looked at memory, it waits for memory to change."""
    changes = actor.machine.tensors.changes
    seen = actor.seen
    if actor.looked and changes.count == seen:
        yield Waiting(lambda: changes.count != seen, lambda: "a loop that waits for memory", actor.line, polls=True)
    actor.looked, actor.seen = False, changes.count


def static_instances(actor: Actor, loop: ir.InstanceLoop) -> Iterator[Waiting | None]:
    """Instances that each group knows by itself; the scope has the one that is worked on."""
    for instance in instances_from(loop, actor.scope):
        yield from following(actor, {ir.INSTANCE: instance})
        yield None


def fetched_instances(actor: Actor) -> Iterator[Waiting | None]:
    """Instances that are fetched: what the group waits for to learn of one, then None for the instance itself."""
    while True:
        actor.fetched, actor.stopped = None, False
        yield from following(actor, {ir.PLACE: actor.machine.assignment.place})
        if actor.fetched is None:
            actor.report("walk", f"{actor.role} does not come to know which instance is next")
        if actor.fetched is None or actor.stopped:
            return
        yield None


def following(actor: Actor, names: Mapping[str, Scalar]) -> Iterator[Waiting]:
    """What is run in front of an instance; what it defines is there for the body."""
    actor.scope.names = {**actor.machine.common.names, ir.INSTANCES: actor.number, **names}
    yield from block(actor, actor.group.next, lasting=True)


def block(actor: Actor, stmts: tuple[ir.Stmt, ...], lasting: bool = False) -> Iterator[Waiting]:
    """A block; what its statements define ends with it, unless it is lasting."""
    machine, scope = actor.machine, actor.scope
    names = dict(scope.names)
    for stmt in stmts:
        actor.line, machine.current = stmt.line or actor.line, actor
        actor.clock.tick()
        if machine.watch:
            machine.watch(actor, stmt)
        match stmt:
            case ir.Let(name, value):
                scope.names[name] = evaluate(value, scope)
            case ir.StopUnless(condition):
                actor.stopped = actor.fetched is None or not evaluate(condition, scope)
                if actor.stopped:
                    return
            case ir.SchedulingStmt():
                scheduling.execute(stmt, scope, machine.common.recalled)
            case ir.PublishInstance(body=body):
                yield from block(actor, body, lasting=True)
                execute(actor, stmt)
            case ir.ScalarLoop():
                yield from scalar_loop(actor, stmt)
            case ir.Elect():
                yield from elect(actor, stmt)
            case ir.Visit():
                yield from instance(actor)
            case ir.CountReuse(name):
                scope.names[name] = count_reuse(stmt, scope, actor.alike)
            case ir.If(condition, body, otherwise):
                yield from block(actor, body if evaluate(condition, scope) else otherwise)
            case ir.Pipeline():
                yield from pipeline(actor, stmt)
            case ir.Acquire() | ir.Get():
                yield from actor.wait(stmt)
            case ir.Settle():
                yield from settle(actor, stmt)
            case ir.Sync(barrier):
                yield from actor.sync(barrier)
            case ir.Arrive(barrier):
                actor.arrive(machine.barriers[barrier])
            case ir.Expect(cursor, size):
                actor.signal(cursor, full=True, arrivals=1, expected=size)
            case ir.Publish(cursor, behind):
                actor.signal(cursor, full=True, arrivals=1 if behind else actor.arrivals, behind=behind)
                for other in machine.others if actor.ring_of[cursor].aref.pair else ():
                    actor.signal(cursor, full=True, arrivals=1, behind=behind, at=other)
            case ir.Consumed(cursor, everywhere, behind):
                ring, arrivals = actor.ring_of[cursor].aref, 1 if behind else actor.arrivals
                if ring.pair and ring.transport == "mma":
                    first = None if machine.first is machine else machine.first
                    actor.signal(cursor, full=False, arrivals=arrivals, behind=behind, at=first)
                    continue
                actor.signal(cursor, full=False, arrivals=arrivals, behind=behind)
                for other in machine.others if everywhere or ring.pair else ():
                    actor.signal(cursor, full=False, arrivals=arrivals, behind=behind, at=other)
            case ir.Advance(cursor):
                actor.cursors[cursor] += 1
            case ir.Skip(cursor, count):
                actor.cursors[cursor] += max(0, integer(count, scope))
            case _:
                execute(actor, stmt)
    if not lasting:
        scope.names = names


def pipeline(actor: Actor, loop: ir.Pipeline) -> Iterator[Waiting]:
    """Prologue, steady state, epilogue."""
    scope = actor.scope
    trip = integer(loop.trip, scope)
    if trip <= 0:
        return
    steps: list[tuple[int, tuple[ir.Stmt, ...] | None]] = [*enumerate(loop.prologue)]
    steps += [(step, None) for step in range(loop.stages, trip)]
    last = max(trip, loop.stages)
    steps += [(last + number, stmts) for number, stmts in enumerate(loop.epilogue)]
    outside, steady = scope.names.get(loop.step), loop.steady
    for step, stmts in steps:
        scope.names[loop.step] = step
        if stmts is None and loop.until is not None and evaluate(loop.until, scope):
            steady = loop.later
        yield from block(actor, steady if stmts is None else stmts)
    scope.names.pop(loop.step)
    if outside is not None:
        scope.names[loop.step] = outside
