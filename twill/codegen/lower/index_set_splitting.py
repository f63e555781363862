"""A steady state that changes once: what it does now and then, it does from some step on, or up to one.

Where a rare guard compares what grows with the steps of a pipeline, the iterations in which it holds are the last ones,
or the first. They get a steady state of their own behind, or before, the one without it: two loops over one set of
registers, rings and MMAs in flight, with no branch in either. So a pipeline of fused loops runs on where the
kernel's first loop ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from twill.codegen.lower.loop_unswitching import FAILS, HOLDS, specialized
from twill.codegen.warp.expression import Apply, Element, Expr, Local, Number
from twill.codegen.warp.program import If, Stmt
from twill.tile.vocabulary import NEGATED

SplitSteadyState = tuple[list[Stmt], Expr, list[Stmt]]
"""A steady state, the condition that ends it, the one behind it."""

RISING = {("ge", 1), ("gt", 1), ("le", -1), ("lt", -1)}
"""(predicate, sign of how fast its left side grows beyond its right one) of a comparison that never ends to hold."""


def split_index_set(steady: Sequence[Stmt], step: str) -> SplitSteadyState | None:
    """Both, if there is one rare guard and it begins, or ends, to hold once. step: the counter of the pipeline."""
    guards = {stmt.condition for stmt in steady if isinstance(stmt, If) and stmt.rare}
    if len(guards) != 1:
        return None
    (guard,) = guards
    change = direction(guard, step)
    if not change:
        return None
    rare, clean = (specialized(steady, {guard: known}) for known in (HOLDS, FAILS))
    return (clean, guard, rare) if change > 0 else (rare, opposite(guard), clean)


def direction(guard: Expr, step: str) -> int:
    """1 if a condition that holds at a step holds at all later ones, -1 if at all earlier ones, else 0."""
    match guard:
        case Apply("compare", (left, right), _, attributes):
            sides = growth(left, step), growth(right, step)
            if sides[0] is None or sides[1] is None or sides[0] == sides[1]:
                return 0
            sign = 1 if sides[0] > sides[1] else -1
            predicate = str(dict(attributes).get("predicate", ""))
            if predicate not in NEGATED or not dict(attributes).get("signed"):
                return 0
            return 1 if (predicate, sign) in RISING else -1
    return 0


def opposite(guard: Expr) -> Expr:
    """The condition that holds where a comparison does not."""
    assert isinstance(guard, Apply)
    attributes = tuple((k, NEGATED[str(v)] if k == "predicate" else v) for k, v in guard.attributes)
    return Apply(guard.kind, guard.operands, guard.element, attributes)


def growth(expr: Expr, step: str) -> int | None:
    """By how much an integer expression grows from step to step; None if that is not known or not always the same."""
    match expr:
        case Local(name) if name == step:
            return 1
        case Element():
            return None
        case Apply("add" | "sub" as kind, (left, right)):
            one, other = growth(left, step), growth(right, step)
            if one is None or other is None:
                return None
            return one + other if kind == "add" else one - other
        case Apply("mul", (left, Number(int(factor)))) | Apply("mul", (Number(int(factor)), left)):
            one = growth(left, step)
            return None if one is None else one * factor
        case Apply(_, operands):
            return 0 if all(growth(operand, step) == 0 for operand in operands) else None
    return 0
