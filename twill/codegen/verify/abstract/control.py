"""Control flow of a warp group: its blocks, pipelines and program instances.

`run` is a generator that yields whenever the group waits: a `Waiting`, which says whether it may go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from twill.codegen.verify.abstract.actor import Actor, Waiting
from twill.codegen.verify.abstract.cross_tile_reuse import count_reuse
from twill.codegen.verify.abstract.scalars import evaluate, integer
from twill.codegen.verify.abstract.statements import execute
from twill.codegen.warp.program import (
    INSTANCES,
    Acquire,
    Advance,
    Arrive,
    Consumed,
    CountReuse,
    Expect,
    Get,
    If,
    Let,
    Pipeline,
    Publish,
    Skip,
    Stmt,
    Sync,
)


def run(actor: Actor) -> Iterator[Waiting]:
    """The start, the body for each program instance, then the finish."""
    group, scope = actor.group, actor.scope
    yield from block(actor, group.start)
    mine, of = group.share
    following = (
        fetched_instances(actor) if actor.machine.program.scheduler_ring is not None else static_instances(actor)
    )
    for wait in following:
        if wait is not None:
            yield wait
            continue
        scope.names = {INSTANCES: actor.number, **actor.pair}
        actor.fragments.forget()
        yield from block(actor, group.body if actor.number % of == mine else group.skip)
        actor.number += 1
    scope.names = {INSTANCES: actor.number}
    yield from block(actor, group.finish)


def static_instances(actor: Actor) -> Iterator[None]:
    """Instances that each group knows by itself, or pairs of them in a cluster; the scope has the one that is worked
    on."""
    member = actor.machine.member
    for index in actor.machine.assignment.given:
        actor.scope.index, actor.pair = member.index(index), member.names(index)
        yield None


def fetched_instances(actor: Actor) -> Iterator[Waiting | None]:
    """Instances that are claimed: what the group waits for to learn of one, then None for the instance itself."""
    while True:
        actor.fetched = ()
        yield from block(actor, actor.group.next)
        if not actor.fetched:
            actor.report("walk", f"{actor.role} does not come to know which instance is next")
        if not actor.fetched or not actor.fetched[-1]:
            return
        actor.scope.index = (actor.fetched[0], actor.fetched[1], actor.fetched[2])
        yield None


def block(actor: Actor, stmts: tuple[Stmt, ...]) -> Iterator[Waiting]:
    """A block; what its Lets define ends with it."""
    machine, scope = actor.machine, actor.scope
    names = dict(scope.names)
    for stmt in stmts:
        actor.line, machine.current = stmt.line or actor.line, actor
        actor.clock.tick()
        if machine.watch:
            machine.watch(actor, stmt)
        match stmt:
            case Let(name, value):
                scope.names[name] = evaluate(value, scope)
            case CountReuse(name):
                scope.names[name] = count_reuse(stmt, scope, actor.alike)
            case If(condition, body, otherwise):
                yield from block(actor, body if evaluate(condition, scope) else otherwise)
            case Pipeline():
                yield from pipeline(actor, stmt)
            case Acquire() | Get():
                yield from actor.wait(stmt)
            case Sync(barrier):
                yield from actor.sync(barrier)
            case Arrive(barrier):
                actor.arrive(machine.barriers[barrier])
            case Expect(cursor, size):
                actor.signal(cursor, full=True, arrivals=1, expected=size)
            case Publish(cursor):
                actor.signal(cursor, full=True, arrivals=actor.arrivals)
            case Consumed(cursor, everywhere):
                actor.signal(cursor, full=False, arrivals=actor.arrivals)
                for other in machine.others if everywhere else ():
                    actor.signal(cursor, full=False, arrivals=actor.arrivals, at=other)
            case Advance(cursor):
                actor.cursors[cursor] += 1
            case Skip(cursor, count):
                actor.cursors[cursor] += max(0, integer(count, scope))
            case _:
                execute(actor, stmt)
    scope.names = names


def pipeline(actor: Actor, loop: Pipeline) -> Iterator[Waiting]:
    """Prologue, steady state, epilogue."""
    scope = actor.scope
    trip = integer(loop.trip, scope)
    if trip <= 0:
        return
    steps: list[tuple[int, tuple[Stmt, ...] | None]] = [*enumerate(loop.prologue)]
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
