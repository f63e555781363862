"""Runs the statements that pipelines are made of, one after the other, for tests of the lowering.

Events of the tests leave a `Let` of their name and the iteration that they work on; everything else is counted by
whoever runs the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from twill.codegen.lower.scalars import Iteration
from twill.codegen.lower.select_loop import EventStatements, SelectedLoop, select_loop
from twill.codegen.lower.stream import Stream, StreamEvent
from twill.codegen.verify.abstract.scalars import EvaluationScope, evaluate, integer
from twill.codegen.warp.expression import Local, Number
from twill.codegen.warp.program import If, Let, Pipeline, Stmt
from twill.tile.program import Loop

TRIP = Local("trip")


def scope(**names: int) -> EvaluationScope:
    """What expressions may refer to."""
    return EvaluationScope({}, (1, 1, 1), (0, 0, 0), lambda fragment: 0, dict(names))


@cache
def loop() -> Loop:
    """A loop; only its identity matters."""
    return Loop(0, 0, 0, 0, 0, (), (), 7)


Emit = Callable[[StreamEvent, Iteration], list[Stmt]]


def says(event: StreamEvent, at: Iteration) -> list[Stmt]:
    """An event's statements: its name, like "issue 3", and its iteration."""
    return [Let(f"{event.key[0]} {event.key[1]}", at.number)]


def nothing(event: StreamEvent) -> list[Stmt]:
    """Of an event that keeps no older versions."""
    return []


def pipeline(stream: Stream, emit: Emit = says, keep: Callable[[StreamEvent], list[Stmt]] = nothing) -> list[Stmt]:
    """The loop in the grammar; its trip count is the local `trip`. The fragment of a value is its step."""
    events = EventStatements(emit, keep, lambda made: made[0])
    return select_loop(SelectedLoop(stream, events, loop(), "k", TRIP))


def executed(stmts: Sequence[Stmt], trip: int) -> Iterator[Stmt]:
    """Statements in the order in which a warp group executes them; a `Let` comes with its number in place."""
    names = scope(trip=trip, k_step=trip - 2)
    yield from _block(stmts, names)


def _block(stmts: Sequence[Stmt], names: EvaluationScope) -> Iterator[Stmt]:
    for stmt in stmts:
        if isinstance(stmt, If):
            if evaluate(stmt.condition, names):
                yield from _block(stmt.body, names)
        elif isinstance(stmt, Pipeline):
            yield from _pipeline(stmt, names)
        elif isinstance(stmt, Let):
            yield Let(stmt.name, Number(integer(stmt.value, names)))
        else:
            yield stmt


def _pipeline(stmt: Pipeline, names: EvaluationScope) -> Iterator[Stmt]:
    """As the grammar of warp programs says."""
    trip = integer(stmt.trip, names)
    if trip <= 0:
        return
    blocks = [(k, stmt.prologue[k]) for k in range(stmt.stages)]
    assert stmt.until is None  # the streams of these tests do the same in every iteration
    blocks += [(k, stmt.steady) for k in range(stmt.stages, trip)]
    blocks += [(max(trip, stmt.stages) + j, stmt.epilogue[j]) for j in range(stmt.stages)]
    for k, block in blocks:
        names.names[stmt.step] = k
        yield from _block(block, names)
    # What retires behind the loop is printed for one stage further than the counter: the last iteration.
    names.names[stmt.step] = trip - 2


def iteration(stmt: Let) -> int:
    """The number that a `Let` was executed with."""
    assert isinstance(stmt.value, Number)
    return int(stmt.value.value)


def event(kind: str, number: int, time: int) -> StreamEvent:
    """An event of that name."""
    return StreamEvent((kind, number), time)
