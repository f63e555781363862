"""Seeded faults of what a warp program computes: conditions off by one, numbers, signs and functions a little off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tests.places import Edit, Place, block_of, edit, instead, other
from twill.codegen.warp.expression import Apply, Expr, Number
from twill.codegen.warp.program import (
    VOTE,
    Compute,
    Fill,
    Fragment,
    If,
    Let,
    Multiply,
    Pipeline,
    Reduce,
    Reg,
    StoreGlobal,
    StoreShared,
    WaitGroups,
    WarpProgram,
)

Faults = Iterable[tuple[str, str, Edit]]
"""(class, what was done, how)."""

OFF_BY_ONE = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
OTHER_BASE = {"exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log"}
APPROXIMATED = ("erf", "erfc", "tanh", "sin", "cos", "sqrt", "rsqrt")
FLOATS = ("f32", "f16", "bf16", "f64")
A_LITTLE, MORE = 1.005, 1.015


def within(expr: Expr, change: Callable[[Expr], Expr | None]) -> Iterator[Expr]:
    """The expression with one of its nodes changed, for each for which there is a change."""
    changed = change(expr)
    if changed is not None:
        yield changed
    for number, operand in enumerate(expr.operands if isinstance(expr, Apply) else ()):
        assert isinstance(expr, Apply)
        for one in within(operand, change):
            yield replace(expr, operands=(*expr.operands[:number], one, *expr.operands[number + 1 :]))


def at_the_edge(expr: Expr) -> Expr | None:
    """A comparison that says something else where its sides are equal."""
    given = dict(expr.attributes) if isinstance(expr, Apply) and expr.kind == "compare" else {}
    turned = OFF_BY_ONE.get(str(given.get("predicate")))
    return other(expr, attributes=tuple({**given, "predicate": turned}.items())) if turned else None


def larger(expr: Expr) -> Expr | None:
    """A number that is a little larger."""
    if not isinstance(expr, Number) or expr.element not in FLOATS or not expr.value or math.isinf(expr.value):
        return None
    return replace(expr, value=expr.value * A_LITTLE)


def guards(place: Place, program: WarpProgram) -> Faults:
    """What holds at n holds at n + 1, or the other way around."""
    stmt = place.stmt
    for name, kind in (("condition", If), ("value", Let), ("until", Pipeline)):
        expr = getattr(stmt, name) if isinstance(stmt, kind) else None
        for wrong in within(expr, at_the_edge) if expr is not None else ():
            yield "condition off by one", name, instead(other(stmt, **{name: wrong}))


def constants(place: Place, program: WarpProgram) -> Faults:
    """Numbers of elementwise operations and of the scalars that they read."""
    stmt = place.stmt
    if isinstance(stmt, Fill | Let):
        for wrong in within(stmt.value, larger):
            yield "wrong constant", "", instead(replace(stmt, value=wrong))
    for number, operand in enumerate(stmt.operands if isinstance(stmt, Compute) else ()):
        assert isinstance(stmt, Compute)
        for wrong in within(operand, larger) if not isinstance(operand, Reg) else ():
            operands = (*stmt.operands[:number], wrong, *stmt.operands[number + 1 :])
            yield "wrong constant", stmt.kind, instead(replace(stmt, operands=operands))


def kinds(place: Place, program: WarpProgram) -> Faults:
    """Signs, NaN, bases of exponentials and what else an operation says of itself."""
    stmt = place.stmt
    if not isinstance(stmt, Compute | Reduce):
        return
    given: dict[str, Any] = dict(getattr(stmt, "attributes", ()))
    for name, what in (("signed", "wrong signedness"), ("propagate_nan", "NaN treated otherwise")):
        if name in given:
            turned = tuple({**given, name: int(not given[name])}.items())
            yield what, "", instead(other(stmt, attributes=turned))
        elif hasattr(stmt, name):
            yield what, "", instead(other(stmt, **{name: not getattr(stmt, name)}))
    if isinstance(stmt, Compute) and stmt.kind in OTHER_BASE:
        yield "wrong base", stmt.kind, instead(replace(stmt, kind=OTHER_BASE[stmt.kind]))
    if VOTE in given:
        yield "rescale left out", "", instead()
    if isinstance(stmt, Compute) and stmt.kind in APPROXIMATED:
        scaled = Compute("mul", (Reg(stmt.result), Number(MORE, "f32")), stmt.result)
        yield "function a little off", stmt.kind, instead(stmt, scaled)


def scales(place: Place, program: WarpProgram) -> Faults:
    """What is stored is half a percent too large."""
    stmt, group = place.stmt, program.groups[place.group]
    if not isinstance(stmt, StoreShared | StoreGlobal):
        return
    number = stmt.operand.fragment if isinstance(stmt.operand, Reg) else stmt.operand
    if isinstance(number, int) and group.fragment(number).element in FLOATS:
        element = group.fragment(number).element
        scaled = Compute("mul", (Reg(number), Number(A_LITTLE, element)), number)
        yield "stored half a percent too large", "", instead(scaled, stmt)


RULES = (guards, constants, kinds, scales)


def rounded_accumulators(place: Place, program: WarpProgram) -> Iterator[tuple[str, str, WarpProgram]]:
    """An accumulator is rounded to bf16 whenever its products are over: (class, what was done, program)."""
    if not isinstance(place.stmt, WaitGroups) or not {"steady", "later"} & {name for name, _ in place.path}:
        return
    group = program.groups[place.group]
    block, _ = block_of(program, place)
    into = {stmt.accumulator for stmt in block if isinstance(stmt, Multiply) and stmt.accumulate}
    fresh = 1 + max(fragment.id for one in program.groups for fragment in one.fragments)
    for number in sorted(into.intersection(place.stmt.ready)):
        narrow = Fragment(fresh, "narrow", "bf16", group.fragment(number).layout)
        there, back = Compute("cast", (Reg(number),), fresh), Compute("cast", (Reg(fresh),), number)
        changed = edit(program, place, instead(place.stmt, there, back))
        grown = tuple(
            replace(one, fragments=(*one.fragments, narrow)) if one.id == group.id else one for one in changed.groups
        )
        yield "accumulator rounded", group.fragment(number).name, replace(changed, groups=grown)
