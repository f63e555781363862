"""Numbers are looked up before MMAs are waited for, so that both are on their way at once.

A scalar of an iteration (a scale of 128 columns and rows of K) is looked up in front of what reads it first: behind the
MMA whose sums it multiplies, where everything waits for global memory once more::

    multiply %acc = a @ b               let scale = lookup(...)
    wait 0 pending: %acc      becomes   multiply %acc = a @ b
    let scale = lookup(...)             wait 0 pending: %acc
    %out = mul %acc, scale              %out = mul %acc, scale

A look-up may go anywhere: nothing that a kernel looks up does it write. It costs a register meanwhile.
"""

from __future__ import annotations

from typing import TypeGuard

from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.expression import Local
from twill.codegen.warp.parameters import looks_up, nodes

PASSED = (
    ir.Advance, ir.Arrive, ir.Commit, ir.Compute, ir.Consumed, ir.Copy, ir.Fence, ir.Fill, ir.Get, ir.Let,
    ir.LoadShared, ir.Multiply, ir.Sync, ir.WaitGroups,
)  # fmt: skip
"""Statements that define no scalar (but for Let) and have no blocks."""


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    return each_body(program, lambda group: raised(group.body))


def raised(stmts: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    """A block, and those in it, with look-ups in front of the waits that they stand behind."""
    made: list[ir.Stmt] = []
    for stmt in stmts:
        place = len(made)
        if is_lookup(stmt):
            place = earliest(made, stmt)
        made.insert(place, ir.with_blocks(stmt, raised))
    return tuple(made)


def is_lookup(stmt: ir.Stmt) -> TypeGuard[ir.Let]:
    """Whether it defines a number that is looked up."""
    return isinstance(stmt, ir.Let) and looks_up(stmt.value)


def earliest(before: list[ir.Stmt], let: ir.Let) -> int:
    """Where a look-up may stand in front of a wait, behind other look-ups; where it stands if it may pass no wait."""
    needed = {node.name for node in nodes(let.value) if isinstance(node, Local)}
    place = len(before)
    while place and isinstance(before[place - 1], PASSED):
        above = before[place - 1]
        if is_lookup(above) or isinstance(above, ir.Let) and above.name in needed:
            break
        place -= 1
    waits = any(isinstance(stmt, ir.WaitGroups) for stmt in before[place:])
    return place if waits else len(before)
