"""Fences that order nothing are left out.

A fence stands between what threads did to registers and an MMA that uses them. An MMA gets one when it is
issued; where no thread touched its registers since the last fence, on any way to it, that one has done the work and
stays. The first MMA of a kernel always has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.program import Fence, If, Multiply, Pipeline, Stmt, WaitGroups, WarpProgram, walk, with_blocks

_FRAGMENTS = ("result", "operand", "source", "mask", "fragment")
"""Fields of statements and what is in them that name fragments, where they hold an integer."""


@dataclass(frozen=True)
class State:
    """What may have happened on some way here, as sets of fragments: bit n is fragment n. touched, written: what
    threads read or wrote, or wrote, since the last fence (that names them, for those written). fenced: whether there
    was one on every way."""

    touched: int = 0
    written: int = 0
    fenced: bool = False

    def or_else(self, other: State) -> State:
        """Either way."""
        return State(self.touched | other.touched, self.written | other.written, self.fenced and other.fenced)


@dataclass(frozen=True)
class _Plain:
    """Statements one after the other that are neither fences nor control flow: what they touch and write together."""

    touched: int
    written: int


@dataclass(frozen=True, eq=False)
class _Fence:
    """A fence and the fragments that it names."""

    stmt: Fence
    named: int


@dataclass(frozen=True)
class _Branch:
    """Either block."""

    blocks: tuple[_Items, ...]


@dataclass(frozen=True)
class _Loop:
    """A pipeline's blocks."""

    prologue: tuple[_Items, ...]
    steadies: tuple[_Items, ...]
    epilogue: tuple[_Items, ...]


_Item = _Plain | _Fence | _Branch | _Loop
_Items = tuple[_Item, ...]


def without_needless_fences(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body of a warp group, which runs again and again, without the fences that order nothing."""
    items = tuple(_items(body))
    needless: frozenset[int] = frozenset()  # by the identity of a Fence
    for stmt in walk(body):
        if isinstance(stmt, Fence) and FenceAnalysis(needless | {id(stmt)}).ordered(items):
            needless |= {id(stmt)}
    return tuple(_without(body, needless)) if needless else body


def _items(stmts: Iterable[Stmt]) -> Iterator[_Item]:
    """A block as the analysis goes through it."""
    touched = written = 0
    for stmt in stmts:
        if isinstance(stmt, Multiply | WaitGroups):
            continue
        if not isinstance(stmt, Fence | If | Pipeline):
            touched |= _set(named(stmt))
            written |= _set([getattr(stmt, "result", -1)])
            continue
        if touched or written:
            yield _Plain(touched, written)
            touched = written = 0
        match stmt:
            case Fence(fragments):
                yield _Fence(stmt, _set(fragments))
            case If():
                yield _Branch((tuple(_items(stmt.otherwise)), tuple(_items(stmt.body))))
            case Pipeline():
                parts = (stmt.prologue, stmt.steadies, stmt.epilogue)
                yield _Loop(*(tuple(tuple(_items(block)) for block in blocks) for blocks in parts))
    if touched or written:
        yield _Plain(touched, written)


def _set(fragments: Iterable[int]) -> int:
    made = 0
    for fragment in fragments:
        if fragment >= 0:
            made |= 1 << fragment
    return made


class FenceAnalysis:
    """Goes through a body until nothing new is found out. without: fences that count as not there, by identity."""

    def __init__(self, without: Set[int]) -> None:
        self.without = without
        self.missed = False  # whether one of them has work to do

    def ordered(self, items: _Items) -> bool:
        """Whether the other fences do the work of those that are not there."""
        start = State()
        while not self.missed and (again := start.or_else(self.block(items, start))) != start:
            start = again
        return not self.missed

    def block(self, items: Iterable[_Item], state: State) -> State:
        """Behind some statements."""
        for item in items:
            state = self.after(item, state)
        return state

    def after(self, item: _Item, state: State) -> State:
        """Behind an item."""
        match item:
            case _Plain():
                return State(state.touched | item.touched, state.written | item.written, state.fenced)
            case _Fence():
                if id(item.stmt) in self.without:
                    self.missed |= not state.fenced or bool(state.touched & item.named)
                    return state
                written = state.written & ~item.named
                return State(state.touched & written, written, True)
            case _Branch():
                first, second = item.blocks
                return self.block(first, state).or_else(self.block(second, state))
            case _Loop():
                return self.pipeline(item, state)

    def pipeline(self, loop: _Loop, state: State) -> State:
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
    else:
        for name in _fields(thing.__class__):
            value = getattr(thing, name)
            if name in _FRAGMENTS and isinstance(value, int):
                yield value
            else:
                yield from named(value)


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass; none of anything else."""
    return tuple(entry.name for entry in fields(kind)) if is_dataclass(kind) else ()


def _without(stmts: Iterable[Stmt], fences: Set[int]) -> Iterator[Stmt]:
    for stmt in stmts:
        if id(stmt) not in fences:
            yield with_blocks(stmt, lambda block: _without(block, fences))


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    return each_body(program, lambda group: without_needless_fences(group.body))
