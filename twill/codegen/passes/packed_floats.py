"""Elementwise work and sums of f32 that a thread does for two registers at a time.

Where a target has instructions that add or multiply two f32 (PTX ISA, "add", "sub", "mul", "fma" with `.f32x2`),
compilers do not use them by themselves. Statements of which a thread has enough are marked, and printed for pairs of
neighbouring registers. Nothing about the numbers changes: each of a pair is rounded as it would be alone, and a product
and the sum behind it are contracted where the program allows it.

What follows one another element by element is marked together: short-lived values then need two registers and not a
tile of them. Not where a function of many instructions is among it (`erfc`), which for two registers at a time needs
more of them than there may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.layout import elements_of
from twill.codegen.warp.program import PAIRED, PAIRS, Compute, Fragment, Reduce, Reg, Stmt, WarpProgram, with_blocks

SHORT = ("neg", "abs", "max", "min", "clamp", "select", "compare", "and", "or", "cast", "exp2")  # few instructions
LEAST = 16  # registers of a result, or of what is summed up


def is_packed(stmt: Compute, fragments: Mapping[int, Fragment]) -> bool:
    """Whether one instruction computes it for two registers. fragments: of its warp group."""
    operands = (fragments[o.fragment].element if isinstance(o, Reg) else o.element for o in stmt.operands)
    return stmt.kind in PAIRED and {fragments[stmt.result].element, *operands} == {"f32"}


def with_pairs(body: Iterable[Stmt], fragments: Mapping[int, Fragment]) -> tuple[Stmt, ...]:
    """A block with its marks, and those of the blocks in it."""

    def run_of(stmt: Stmt) -> object:
        """What statements have in common that are done element by element together; None if they are not."""
        if not isinstance(stmt, Compute) or elements_of(layout := fragments[stmt.result].layout) < LEAST:
            return None
        return layout

    made: list[Stmt] = []
    for key, block in groupby(body, run_of):
        run = [with_blocks(stmt, lambda inner: with_pairs(inner, fragments)) for stmt in block]
        made += [summed(stmt, fragments) for stmt in run] if key is None else together(run, fragments)
    return tuple(made)


def together(run: Sequence[Stmt], fragments: Mapping[int, Fragment]) -> Sequence[Stmt]:
    """Elementwise statements of one layout that follow one another."""
    computes = [stmt for stmt in run if isinstance(stmt, Compute)]
    packed = [is_packed(stmt, fragments) for stmt in computes]
    if not any(packed) or not all(one or stmt.kind in SHORT for one, stmt in zip(packed, computes, strict=True)):
        return run
    return [replace(stmt, attributes=(*stmt.attributes, (PAIRS, 1))) for stmt in computes]


def summed(stmt: Stmt, fragments: Mapping[int, Fragment]) -> Stmt:
    """Any other statement: marked if it adds up many f32."""
    if isinstance(stmt, Reduce) and stmt.combine == "add":
        operand = fragments[stmt.operand]
        if {operand.element, fragments[stmt.result].element} == {"f32"} and elements_of(operand.layout) >= LEAST:
            return replace(stmt, attributes=(*stmt.attributes, (PAIRS, 1)))
    return stmt


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    if not choices.packed:
        return program
    return each_body(program, lambda group: with_pairs(group.body, {one.id: one for one in group.fragments}))
