"""Fences that order nothing are left out.

A fence stands between what threads did to registers and an MMA that uses them. An MMA gets one when it is
issued; where no thread touched its registers since the last fence, on any way to it, that one has done the work. The
first MMA of a kernel always has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.program import Fence, If, Multiply, Pipeline, Stmt, WaitGroups, WarpProgram, walk, with_blocks

_FRAGMENTS = ("result", "operand", "source", "mask", "fragment")
"""Fields of statements and what is in them that name fragments, where they hold an integer."""


@dataclass(frozen=True)
class State:
    """What may have happened on some way here. touched, written: fragments that threads read or wrote, or wrote, since
    the last fence (that names them, for those written). fenced: whether there was one on every way."""

    touched: frozenset[int] = frozenset()
    written: frozenset[int] = frozenset()
    fenced: bool = False

    def or_else(self, other: State) -> State:
        """Either way."""
        return State(self.touched | other.touched, self.written | other.written, self.fenced and other.fenced)


def without_needless_fences(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body of a warp group, which runs again and again, without the fences that order nothing."""
    while (needless := FenceAnalysis().needless(body)) is not None:
        body = tuple(_without(body, needless))
    return body


class FenceAnalysis:
    """Goes through a body until nothing new is found out."""

    def __init__(self) -> None:
        self.before: dict[int, State] = {}  # by the identity of a Fence

    def needless(self, body: tuple[Stmt, ...]) -> Fence | None:
        """The first fence that orders nothing."""
        start = State()
        while (again := start.or_else(self.block(body, start))) != start:
            start = again
        for stmt in (s for s in walk(body) if isinstance(s, Fence)):
            known = self.before[id(stmt)]
            if known.fenced and not known.touched & set(stmt.fragments):
                return stmt
        return None

    def block(self, stmts: Iterable[Stmt], state: State) -> State:
        """Behind some statements."""
        for stmt in stmts:
            state = self.after(stmt, state)
        return state

    def after(self, stmt: Stmt, state: State) -> State:
        """Behind a statement."""
        match stmt:
            case Fence(fragments):
                known = self.before.get(id(stmt))
                self.before[id(stmt)] = state if known is None else known.or_else(state)
                written = state.written - set(fragments)
                return State(state.touched & written, written, True)
            case If():
                return self.block(stmt.otherwise, state).or_else(self.block(stmt.body, state))
            case Pipeline():
                return self.pipeline(stmt, state)
            case Multiply() | WaitGroups():
                return state
        result = getattr(stmt, "result", -1)
        return replace(state, touched=state.touched | set(named(stmt)), written=state.written | {result})

    def pipeline(self, loop: Pipeline, state: State) -> State:
        """No iteration; or the prologue, the steady state any number of times, the epilogue."""
        inside = state
        for block in loop.prologue:
            inside = self.block(block, inside)
        for steady in loop.steadies:
            while (again := inside.or_else(self.block(steady, inside))) != inside:
                inside = again
        for block in loop.epilogue:
            inside = self.block(block, inside)
        return state.or_else(inside)


def named(thing: Any) -> Iterator[int]:
    """Fragments that a statement's threads read or write."""
    if isinstance(thing, tuple):
        for item in thing:
            yield from named(item)
    elif is_dataclass(thing):
        for entry in fields(thing):
            value = getattr(thing, entry.name)
            if entry.name in _FRAGMENTS and isinstance(value, int):
                yield value
            else:
                yield from named(value)


def _without(stmts: Iterable[Stmt], fence: Fence) -> Iterator[Stmt]:
    for stmt in stmts:
        if stmt is not fence:
            yield with_blocks(stmt, lambda block: _without(block, fence))


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    return each_body(program, lambda group: without_needless_fences(group.body))
