"""Tiles that are loaded where they are wanted: loads behind the reductions that they have no part in.

A kernel that loads a row with its weight and bias, then reduces the row twice, has all three in registers meanwhile;
so fewer CTAs share an SM. Where lowering chose that (`LoweringCandidate.late`), loads move down to their first reader,
stores of numbers in front of the next access of memory, and casts of what was loaded with it. Loads stay in front of
every store that they were in front of, so nothing changes where tensors share memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.effects import effects

Elementwise = ir.Compute | ir.Copy | ir.Fill | ir.Range


def sunk(stmts: Sequence[ir.Stmt]) -> tuple[ir.Stmt, ...]:
    """A block in which each load, cast of one tile and store stands as late as what it reads and writes allows. Blocks
    within it stay as they are."""
    made = list(stmts)
    for first in range(len(made) - 1, -1, -1):
        place = first
        while place + 1 < len(made) and may_pass(made[place], made[place + 1]):
            made[place], made[place + 1] = made[place + 1], made[place]
            place += 1
    return tuple(made)


def may_pass(stmt: ir.Stmt, later: ir.Stmt) -> bool:
    """Whether a statement may go behind the one that follows it, and gains by that."""
    match stmt:
        case ir.LoadGlobal():
            passes = isinstance(later, Elementwise | ir.Reduce | ir.LoadGlobal)
        case ir.StoreGlobal(combine=""):
            passes = isinstance(later, Elementwise)
        case ir.Compute() if len([o for o in stmt.operands if isinstance(o, ir.Reg)]) == 1 == len(stmt.operands):
            passes = isinstance(later, Elementwise | ir.Reduce | ir.LoadGlobal)
        case _:
            return False
    if not passes:
        return False
    written, read = effects(stmt)
    others, wanted = effects(later)
    return not (written & (others | wanted) or read & others)


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    return each_body(program, lambda group: sunk(group.body)) if choices.late else program
