"""Elementwise work on matrices brought together: vectors that stand in between move in front of it.

A schedule puts the instructions of several units side by side; between the steps of one chain on a matrix there may be
a few numbers for each row. What follows one another on a matrix is printed as one loop, whose values in between need a
register each and not a tile; so vectors move up as far as what they read and write allows.
"""

from __future__ import annotations

from collections.abc import Iterable

from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.effects import effects
from twill.codegen.warp.layout import Accumulator, Layout
from twill.codegen.warp.program import Compute, Copy, Fill, Range, Stmt, WarpProgram, with_blocks

Elementwise = Compute | Copy | Fill | Range


def hoist_vectors(stmts: Iterable[Stmt], layouts: dict[int, Layout]) -> tuple[Stmt, ...]:
    """A block in the new order. layouts: of the group's fragments."""
    made: list[Stmt] = []
    for stmt in stmts:
        made.append(inside(stmt, layouts))
        place = len(made) - 1
        while place and may_pass(made[place - 1], made[place], layouts):
            made[place - 1], made[place] = made[place], made[place - 1]
            place -= 1
    return tuple(made)


def inside(stmt: Stmt, layouts: dict[int, Layout]) -> Stmt:
    """The statement with its own blocks gathered."""
    return with_blocks(stmt, lambda block: hoist_vectors(block, layouts))


def may_pass(matrix: Stmt, vector: Stmt, layouts: dict[int, Layout]) -> bool:
    """Whether an elementwise statement on a vector may go in front of the one on a matrix before it."""
    if not isinstance(matrix, Compute) or not isinstance(vector, Elementwise):
        return False
    if not isinstance(layouts[matrix.result], Accumulator) or isinstance(layouts[vector.result], Accumulator):
        return False
    written, read = effects(matrix)
    return matrix.result not in effects(vector)[1] and vector.result not in read | written


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    return each_body(program, lambda group: hoist_vectors(group.body, {f.id: f.layout for f in group.fragments}))
