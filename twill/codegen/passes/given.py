"""Scalars that the launch computes for a program (`Given`): what passes that make some have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twill.codegen.warp.expression import Apply, Expr, Local
from twill.codegen.warp.program import Define, Given, WarpProgram


def with_given(program: WarpProgram, found: Mapping[str, Expr]) -> WarpProgram:
    """The program with such scalars, by name, behind what its setup begins with."""
    setup = program.setup
    at = next((number for number, stmt in enumerate(setup) if not isinstance(stmt, Define | Given)), len(setup))
    made = (Given(name, value) for name, value in found.items())
    return replace(program, setup=(*setup[:at], *made, *setup[at:]))


def inlined(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    """An expression with the values of the scalars that are known."""
    if isinstance(expr, Local):
        return known.get(expr.name, expr)
    if isinstance(expr, Apply):
        return replace(expr, operands=tuple(inlined(part, known) for part in expr.operands))
    return expr
