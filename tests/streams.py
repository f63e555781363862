"""Runs the statements that pipelines are made of, one after the other, for tests of the lowering.

Events of the tests leave a `Let` of their name and the iteration that they work on; everything else is counted by
whoever runs the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from twill.codegen.lower.scalars import Iteration
from twill.codegen.lower.stream import Printer, Stream, StreamEvent
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


def says(name: str) -> Callable[[Iteration], list[Stmt]]:
    """An event's statements: its name and its iteration."""
    return lambda at: [Let(name, at.number)]


def pipeline(stream: Stream) -> list[Stmt]:
    """The printed loop; its trip count is the local `trip`."""
    return Printer(stream, loop(), "k", TRIP).pipeline(7)


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
    """An event that says its name, like "issue 3"."""
    return StreamEvent((kind, number), time, says(f"{kind} {number}"))
