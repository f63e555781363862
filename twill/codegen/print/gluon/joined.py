"""Branches on one condition as one branch, with what stands between them in both of its sides.

Threads that change an accumulator read it some columns at a time, in the first iteration something else in its place:
a branch around each read. A variable that comes out of a branch costs Triton's code registers that one within does not.
Neighbours on one condition are one branch, too.
"""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.warp import program as ir

_BETWEEN = (ir.Compute, ir.StoreAccumulator)


def with_joined_branches(program: ir.WarpProgram) -> ir.WarpProgram:
    """The program whose branches around reads of tensor memory are joined."""
    groups = (replace(group, body=_joined(group.body)) for group in program.groups)
    return replace(program, groups=tuple(groups))


def _joined(block: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    made: list[ir.Stmt] = []
    at = 0
    while at < len(block):
        stmt = block[at]
        end = _end(block, at)
        if isinstance(stmt, ir.If) and end > at + 1:
            sides = (_side(block[at:end], taken) for taken in (True, False))
            made.append(replace(stmt, body=next(sides), otherwise=next(sides)))
            at = end
        else:
            inner = ir.with_blocks(stmt, _joined)
            if made and _neighbours(made[-1], inner):
                made[-1] = replace(made[-1], body=(*made[-1].body, *inner.body))  # type: ignore[attr-defined, call-arg]
            else:
                made.append(inner)
            at += 1
    return tuple(made)


def _neighbours(one: ir.Stmt, other: ir.Stmt) -> bool:
    """Whether two branches have the same condition, which does not change between them, and no other side."""
    if not isinstance(one, ir.If) or not isinstance(other, ir.If) or one.otherwise or other.otherwise:
        return False
    return one.condition == other.condition and not any(isinstance(stmt, ir.Let) for stmt in one.body)


def _end(block: tuple[ir.Stmt, ...], at: int) -> int:
    """Behind the statements that may stand in the branch that begins at a place; that place if none does."""
    first = block[at]
    end = at
    while end < len(block) and (_reads(block[end], first) or (end > at and isinstance(block[end], _BETWEEN))):
        end += 1
    return end


def _reads(stmt: ir.Stmt, first: ir.Stmt) -> bool:
    """Whether a statement is a branch around a read of tensor memory, on the condition of the first."""
    if not isinstance(stmt, ir.If) or not isinstance(first, ir.If) or stmt.condition != first.condition:
        return False
    match stmt.body, stmt.otherwise:
        case (ir.LoadAccumulator(),), (ir.Fill(),):
            return True
    return False


def _side(stmts: tuple[ir.Stmt, ...], taken: bool) -> tuple[ir.Stmt, ...]:
    made: list[ir.Stmt] = []
    for stmt in stmts:
        made += (stmt.body if taken else stmt.otherwise) if isinstance(stmt, ir.If) else [stmt]
    return tuple(made)
