"""Places in a warp program: every statement, where it stands, and the program with another one there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from twill.codegen.warp.program import If, Pipeline, Stmt, WarpProgram

Path = tuple[tuple[str, int], ...]
"""(field, index) at every level; blocks of prologue and epilogue are ("prologue", k), then ("", index)."""


@dataclass(frozen=True)
class Place:
    """A statement of a warp group."""

    group: int
    path: Path
    stmt: Stmt


def other(thing: Any, **changes: Any) -> Any:
    """The same with some fields changed."""
    return replace(thing, **changes)


def places(program: WarpProgram) -> Iterator[Place]:
    """Every statement."""
    for group in program.groups:
        for part in ("start", "next", "body", "skip", "finish"):
            yield from _places(group.id, (), part, getattr(group, part))


def _places(group: int, prefix: Path, part: str, block: tuple[Stmt, ...]) -> Iterator[Place]:
    for index, stmt in enumerate(block):
        path = (*prefix, (part, index))
        yield Place(group, path, stmt)
        if isinstance(stmt, If):
            yield from _places(group, path, "body", stmt.body)
            yield from _places(group, path, "otherwise", stmt.otherwise)
        elif isinstance(stmt, Pipeline):
            for name in ("prologue", "epilogue"):
                for number, one in enumerate(getattr(stmt, name)):
                    yield from _places(group, (*path, (name, number)), "", one)
            yield from _places(group, path, "steady", stmt.steady)
            yield from _places(group, path, "later", stmt.later)


Edit = Callable[[tuple[Stmt, ...], int], tuple[Stmt, ...]]


def edit(program: WarpProgram, place: Place, change: Edit) -> WarpProgram:
    """The program with the block around a place changed; `change` gets the block and the place's index in it."""
    group = program.groups[place.group]
    made = _edit(group, place.path, change)
    groups = tuple(made if one.id == group.id else one for one in program.groups)
    return replace(program, groups=groups)


def _edit(owner: Any, path: Path, change: Edit) -> Any:
    (part, index), rest = path[0], path[1:]
    if part == "":  # the owner is a block of a prologue or epilogue
        return _block(owner, index, rest, change)
    value = getattr(owner, part)
    if part in ("prologue", "epilogue"):
        inner = _edit(value[index], rest, change) if rest else change(value, index)
        return replace(owner, **{part: (*value[:index], inner, *value[index + 1 :]) if rest else inner})
    return replace(owner, **{part: _block(value, index, rest, change)})


def _block(block: tuple[Stmt, ...], index: int, rest: Path, change: Edit) -> tuple[Stmt, ...]:
    if not rest:
        return change(block, index)
    return (*block[:index], _edit(block[index], rest, change), *block[index + 1 :])


def block_of(program: WarpProgram, place: Place) -> tuple[tuple[Stmt, ...], int]:
    """The block around a place, and the place's index in it."""
    found: list[tuple[tuple[Stmt, ...], int]] = []

    def look(block: tuple[Stmt, ...], index: int) -> tuple[Stmt, ...]:
        found.append((block, index))
        return block

    edit(program, place, look)
    return found[0]


def instead(*stmts: Stmt) -> Edit:
    """The statement becomes these."""
    return lambda block, index: (*block[:index], *stmts, *block[index + 1 :])


def move(index: int, to: int) -> Edit:
    """The statement at `index` comes to stand before the one at `to`."""

    def change(block: tuple[Stmt, ...], _: int) -> tuple[Stmt, ...]:
        rest = [*block[:index], *block[index + 1 :]]
        rest.insert(to if to <= index else to - 1, block[index])
        return tuple(rest)

    return change
