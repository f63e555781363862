"""Branches on one condition as one branch, with what stands between them in both of its sides.

Threads that change an accumulator read it some columns at a time, in the first iteration something else in its place:
a branch around each read. A variable that comes out of a branch costs Triton's code registers that one within does not.
Neighbours on one condition are one branch, too.
"""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.warp.program import (
    Compute,
    Fill,
    If,
    Let,
    LoadAccumulator,
    Stmt,
    StoreAccumulator,
    WarpProgram,
    with_blocks,
)

_BETWEEN = (Compute, StoreAccumulator)


def with_joined_branches(program: WarpProgram) -> WarpProgram:
    """The program whose branches around reads of tensor memory are joined."""
    groups = (replace(group, body=_joined(group.body)) for group in program.groups)
    return replace(program, groups=tuple(groups))


def _joined(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    at = 0
    while at < len(block):
        stmt = block[at]
        end = _end(block, at)
        if isinstance(stmt, If) and end > at + 1:
            sides = (_side(block[at:end], taken) for taken in (True, False))
            made.append(replace(stmt, body=next(sides), otherwise=next(sides)))
            at = end
        else:
            inner = with_blocks(stmt, _joined)
            if made and _neighbours(made[-1], inner):
                made[-1] = replace(made[-1], body=(*made[-1].body, *inner.body))  # type: ignore[attr-defined, call-arg]
            else:
                made.append(inner)
            at += 1
    return tuple(made)


def _neighbours(one: Stmt, other: Stmt) -> bool:
    """Whether two branches have the same condition, which does not change between them, and no other side."""
    if not isinstance(one, If) or not isinstance(other, If) or one.otherwise or other.otherwise:
        return False
    return one.condition == other.condition and not any(isinstance(stmt, Let) for stmt in one.body)


def _end(block: tuple[Stmt, ...], at: int) -> int:
    """Behind the statements that may stand in the branch that begins at a place; that place if none does."""
    first = block[at]
    end = at
    while end < len(block) and (_reads(block[end], first) or (end > at and isinstance(block[end], _BETWEEN))):
        end += 1
    return end


def _reads(stmt: Stmt, first: Stmt) -> bool:
    """Whether a statement is a branch around a read of tensor memory, on the condition of the first."""
    if not isinstance(stmt, If) or not isinstance(first, If) or stmt.condition != first.condition:
        return False
    match stmt.body, stmt.otherwise:
        case (LoadAccumulator(),), (Fill(),):
            return True
    return False


def _side(stmts: tuple[Stmt, ...], taken: bool) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for stmt in stmts:
        made += (stmt.body if taken else stmt.otherwise) if isinstance(stmt, If) else [stmt]
    return tuple(made)
