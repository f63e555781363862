"""Divisions by what most launches have equal to one number are divisions by that number there.

A division of integers that are known at the launch alone takes some hundred cycles, and a CTA begins with three or four
of them, one behind the other, before it can load its first tile. The rows of a raster group are at most as many as the
kernel says, and so many in all but the last group; K is in one part in most launches::

    pid_n = (place / rows)      becomes      pid_n = select((rows == 8), (place / 8), (place / rows))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.expression import Apply, Expr, Local, Number, NumPrograms
from twill.codegen.warp.program import Let, Stmt, WarpGroup, WarpProgram

DIVISIONS = ("div", "rem")


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    return each_body(program, lambda group: tuple(divided(group)))


def divided(group: WarpGroup) -> Iterator[Stmt]:
    """The body of a warp group, whose scalars are divided so."""
    most: dict[str, Number] = {}
    for stmt in group.body:
        if not isinstance(stmt, Let):
            yield stmt
            continue
        bound = bound_of(stmt.value, most)
        if bound is not None:
            most[stmt.name] = bound
        yield replace(stmt, value=quick(stmt.value, most))


def quick(expr: Expr, most: Mapping[str, Number]) -> Expr:
    """An expression with such divisions. most: bounds of scalars, by name."""
    if not isinstance(expr, Apply):
        return expr
    made = replace(expr, operands=tuple(quick(operand, most) for operand in expr.operands))
    if made.kind not in DIVISIONS or made.unsigned:
        return made
    dividend, divisor = made.operands
    bound = bound_of(divisor, most)
    if bound is None or bound.value < 1 or bound.element != made.element:
        return made
    equal = Apply("compare", (divisor, bound), "i1", (("predicate", "eq"), ("signed", 1)))
    return Apply("select", (equal, by(made, dividend, bound), made), made.element)


def by(division: Apply, dividend: Expr, divisor: Number) -> Expr:
    """The quotient, or rest, of a division by a constant."""
    if divisor.value == 1:
        return dividend if division.kind == "div" else Number(0, division.element)
    return replace(division, operands=(dividend, divisor))


def bound_of(expr: Expr, most: Mapping[str, Number]) -> Number | None:
    """What an expression is in most launches, if there is such a number: its upper bound; one part of a sum."""
    match expr:
        case Local(name):
            return most.get(name)
        case NumPrograms(axis, element) if axis > 0:
            return Number(1, element)
        case Apply("min", (_, Number() as bound)) | Apply("min", (Number() as bound, _)):
            return bound
    return None
