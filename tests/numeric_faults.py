"""Seeded faults of what a warp program computes: conditions off by one, numbers, signs and functions a little off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tests.places import Edit, Place, block_of, edit, instead, other
from twill.codegen.warp.expression import Apply, Expr, Local, Number
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import (
    WARP_VOTE,
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
    TmaLoad,
    WaitGroups,
    WarpProgram,
)
from twill.tile.vocabulary import SLACK

Faults = Iterable[tuple[str, str, Edit]]
"""(class, what was done, how)."""

OFF_BY_ONE = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
OTHER_BASE = {"exp": "exp2", "exp2": "exp", "log": "log2", "log2": "log"}
APPROXIMATED = ("erf", "erfc", "tanh", "sin", "cos", "sqrt", "rsqrt")
FLOATS = ("f32", "f16", "bf16", "f64")
A_LITTLE, MORE = 1.005, 1.015
SEEDED = "seeded"  # of a conversion that is the fault, so that it is told from those of the program (`tests.wide`)


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
    if isinstance(stmt, Let) and is_hint(stmt.name, program):
        return
    for name, kind in (("condition", If), ("value", Let), ("until", Pipeline)):
        expr = getattr(stmt, name) if isinstance(stmt, kind) else None
        for wrong in within(expr, at_the_edge) if expr is not None else ():
            yield "condition off by one", name, instead(other(stmt, **{name: wrong}))


def is_hint(name: str, program: WarpProgram) -> bool:
    """Whether a scalar only says what leaves the L2 cache first, which changes no number."""
    loads = [node for node in nodes(program.groups) if isinstance(node, TmaLoad)]
    asked = sum(bool(node == Local(name, "i1")) for node in nodes(program.groups))
    return 0 < asked == sum(load.passing == Local(name, "i1") for load in loads)


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
    if WARP_VOTE in given:
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


def once(place: Place, program: WarpProgram) -> Faults:
    """A rescale is left out in the second iteration of a loop's steady state, and in no other."""
    given = dict(place.stmt.attributes) if isinstance(place.stmt, Compute) else {}
    loop = loop_of(program, place)
    if WARP_VOTE not in given or loop is None:
        return
    second = Apply("compare", (Local(loop.step), Number(loop.stages + 1)), "i1", (("predicate", "ne"),))
    yield "rescale left out once", "", instead(If(second, (place.stmt,)))


def loop_of(program: WarpProgram, place: Place) -> Pipeline | None:
    """The pipeline in whose steady state a place is."""
    for number, (name, _) in enumerate(place.path):
        if name in ("steady", "later"):
            block, index = block_of(program, replace(place, path=place.path[:number]))
            loop = block[index]
            return loop if isinstance(loop, Pipeline) else None
    return None


RULES = (guards, constants, kinds, scales, once)


def roundings(place: Place, program: WarpProgram) -> Iterator[tuple[str, str, WarpProgram]]:
    """What a loop carries is rounded to bf16 whenever it is new: (class, what was done, program)."""
    stmt = place.stmt
    if isinstance(stmt, WaitGroups):
        yield from rounded_accumulators(place, stmt, program)
    elif isinstance(stmt, Compute) and stmt.kind == "max" and dict(stmt.attributes).get(SLACK):
        yield "maximum rounded", "", narrowed(program, place, stmt.result)


def rounded_accumulators(
    place: Place, stmt: WaitGroups, program: WarpProgram
) -> Iterator[tuple[str, str, WarpProgram]]:
    """Accumulators whose products are over."""
    if not {"steady", "later"} & {name for name, _ in place.path}:
        return
    block, _ = block_of(program, place)
    into = {stmt.accumulator for stmt in block if isinstance(stmt, Multiply) and stmt.accumulate}
    for number in sorted(into.intersection(stmt.ready)):
        name = program.groups[place.group].fragment(number).name
        yield "accumulator rounded", name, narrowed(program, place, number)


def narrowed(program: WarpProgram, place: Place, number: int) -> WarpProgram:
    """The program with a fragment rounded to bf16 behind a statement."""
    group = program.groups[place.group]
    fresh = 1 + max(fragment.id for one in program.groups for fragment in one.fragments)
    narrow = Fragment(fresh, "narrow", "bf16", group.fragment(number).layout)
    there = Compute("cast", (Reg(number),), fresh, ((SEEDED, 1),))
    changed = edit(program, place, instead(place.stmt, there, Compute("cast", (Reg(fresh),), number)))
    grown = (replace(one, fragments=(*one.fragments, narrow)) if one.id == group.id else one for one in changed.groups)
    return replace(changed, groups=tuple(grown))
