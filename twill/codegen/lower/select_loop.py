"""The pipeline of one loop in the grammar of warp programs: from its stream, and the statements of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from twill.codegen.lower.index_set_splitting import split_index_set
from twill.codegen.lower.loop_unswitching import unswitched
from twill.codegen.lower.scalars import Iteration
from twill.codegen.lower.stream import Block, Made, Occurrence, Stream, StreamEvent, cost_of_cut, pipeline_blocks
from twill.codegen.warp.expression import Apply, Expr, Local, Number, less
from twill.codegen.warp.program import Commit, If, Pipeline, Stmt, WaitGroups
from twill.tile.program import Loop


@dataclass(frozen=True)
class EventStatements:
    """What events are in the grammar. emit: an event's statements for an iteration; keep: copies of older versions of
    what it defines; fragment: where a value is."""

    emit: Callable[[StreamEvent, Iteration], list[Stmt]]
    keep: Callable[[StreamEvent], list[Stmt]]
    fragment: Callable[[Made], int]


@dataclass(frozen=True)
class SelectedLoop:
    """A loop that is being said. trip: its iterations; step: what its counter is called."""

    stream: Stream
    statements: EventStatements
    loop: Loop
    name: str
    trip: Expr

    @property
    def step(self) -> str:
        """What the counter is called."""
        return f"{self.name}_step"

    def block(self, block: Block, step: int | None = None) -> tuple[Stmt, ...]:
        """The statements of a block. step: the counter's value, if that is known."""
        return tuple(stmt for one in block for stmt in self.occurrence(one, step))

    def occurrence(self, one: Occurrence, step: int | None) -> Iterator[Stmt]:
        """An event under its guards; waits, commits and copies are made whatever they say."""
        event = one.event
        if one.keeps:
            yield from self.statements.keep(event)
        if one.empty:
            if event.multiplies:
                yield Commit(note="no iteration yet or left: an empty group")
            return
        if event.retires is not None:
            pending, free = self.stream.pending(event)
            yield WaitGroups(pending, tuple(map(self.statements.fragment, free)))
        body = tuple(self.statements.emit(event, Iteration(self.loop, self.step, event.stage)))
        guard = self.guard(one, step)
        if body:
            yield from body if guard is None else (If(guard, body),)
        if event.multiplies:
            yield Commit()

    def guard(self, one: Occurrence, step: int | None) -> Expr | None:
        """Under which an event happens; None if it always does."""
        event = one.event
        begun = less(Number(event.stage - 1), Local(self.step))
        if not one.left:
            return begun if one.begun else None
        number = Iteration(self.loop, self.step, event.stage).number if step is None else Number(step - event.stage)
        left = less(number, self.trip)
        return Apply("and", (begun, left), "i1") if one.begun else left


def select_loop(selected: SelectedLoop, split_index_sets: bool = True) -> list[Stmt]:
    """The pipeline and what drains it. split_index_sets: whether its steady state may change once."""
    stream, trip, line = selected.stream, selected.trip, selected.loop.line
    blocks = pipeline_blocks(stream)
    prologue = tuple(selected.block(block, k) for k, block in enumerate(blocks.prologue))
    steady, until, later = steadies(selected, blocks.steady, split_index_sets)
    epilogue = tuple(map(selected.block, blocks.epilogue))
    made: list[Stmt] = [
        Pipeline(
            selected.name, selected.step, trip, stream.stages, prologue, tuple(steady), epilogue, stream.interval,
            until, tuple(later), line=line,
        )
    ]  # fmt: skip
    waits = [event for event in stream.events if event.retires is not None]
    if waits:
        free = dict.fromkeys(selected.statements.fragment(one) for event in waits for one in event.ready)
        made.append(WaitGroups(0, tuple(free), line=line))
    last = Iteration(selected.loop, selected.step, -1)  # not read: a retirement needs no addresses
    body = tuple(stmt for one in blocks.behind for stmt in selected.statements.emit(one.event, last))
    if body:
        made.append(If(less(Number(max(stream.stages, 1) - 1), trip), body))
    return made


def steadies(
    selected: SelectedLoop, block: Block, split_index_sets: bool
) -> tuple[Sequence[Stmt], Expr | None, Sequence[Stmt]]:
    """The steady state, and where it becomes another one. MMAs that are in flight from step to step, and whose
    registers others touch, allow one only."""
    steady = list(selected.block(block))
    if cost_of_cut(selected.stream)[0]:
        return steady, None, []
    found = split_index_set(steady, selected.step) if split_index_sets else None
    return found or (unswitched(steady), None, [])
