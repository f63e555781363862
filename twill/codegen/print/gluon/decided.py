"""Conditions of a loop that its number of iterations decides, where that is known when the module is printed.

Triton finds out that the statements under them never run, or always do, and the PTX has none of them; so the module
has none either: what is read back is what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from twill.codegen.warp.expression import Apply, Expr, Local, Number
from twill.codegen.warp.program import If, Let, Pipeline, Stmt, WarpProgram, with_blocks
from twill.manifest.evaluate import HOLDS
from twill.tile.fold import fold

MOST = 4096  # iterations that are looked at one by one

Known = dict[str, Iterable[int]]
"""Values that a name has, where they are known."""


def decided(program: WarpProgram) -> WarpProgram:
    """The program without conditions that are known to hold, or not to hold, whenever they are asked."""
    groups = tuple(replace(group, body=tuple(_block(group.body, {}))) for group in program.groups)
    return program if groups == program.groups else replace(program, groups=groups)


def _block(stmts: Sequence[Stmt], known: Known) -> Iterator[Stmt]:
    for stmt in stmts:
        if isinstance(stmt, Let):
            known = {name: values for name, values in known.items() if name != stmt.name}
            if (value := number(stmt.value, _single(known))) is not None:
                known[stmt.name] = (value,)
                stmt = replace(stmt, value=Number(value, stmt.value.element))
            yield stmt
        elif isinstance(stmt, Pipeline):
            yield _pipeline(stmt, known)
        elif isinstance(stmt, If):
            found = verdict(stmt.condition, known)
            if found is None:
                yield with_blocks(stmt, partial(_block, known=known))
            else:
                yield from _block(stmt.body if found else stmt.otherwise, known)
        else:
            yield with_blocks(stmt, partial(_block, known={}))


def _pipeline(loop: Pipeline, known: Known) -> Stmt:
    trip = number(loop.trip, _single(known))
    if trip is None or trip > MOST:
        inside = {name: values for name, values in known.items() if name != loop.step}
        return with_blocks(loop, partial(_block, known=inside))

    def at(block: Sequence[Stmt], steps: Iterable[int]) -> tuple[Stmt, ...]:
        return tuple(_block(block, {**known, loop.step: tuple(steps)}))

    last = max(trip, loop.stages)
    return replace(
        loop,
        trip=Number(trip, loop.trip.element),
        prologue=tuple(at(block, (step,)) for step, block in enumerate(loop.prologue)),
        steady=at(loop.steady, range(loop.stages, trip)),
        later=at(loop.later, range(loop.stages, trip)),
        epilogue=tuple(at(block, (last + behind,)) for behind, block in enumerate(loop.epilogue)),
    )


def _single(known: Known) -> dict[str, int]:
    """The names that have one value."""
    every = {name: tuple(values) for name, values in known.items()}
    return {name: values[0] for name, values in every.items() if len(values) == 1}


def verdict(condition: Expr, known: Known) -> bool | None:
    """Whether a condition holds with all values that names have, or with none of them; None if neither is known. What
    never runs is as it is."""
    several = [name for name, values in known.items() if len(tuple(values)) > 1]
    if any(not tuple(values) for values in known.values()) or len(several) > 1:
        return None
    fixed = _single(known)
    cases = [{**fixed, **{name: value for name in several}} for value in (known[several[0]] if several else (0,))]
    found = {number(condition, case) for case in cases}
    return bool(found.pop()) if len(found) == 1 and None not in found else None


def number(expr: Expr, known: Mapping[str, int]) -> int | None:
    """An integer that is known."""
    match expr:
        case Number(int() as value):
            return value
        case Local(name):
            return known.get(name)
        case Apply("select", (condition, held, other)):
            chosen = number(condition, known)
            return None if chosen is None else number(held if chosen else other, known)
        case Apply(kind, operands):
            given = [number(operand, known) for operand in operands]
            if kind == "and" and expr.element == "i1" and 0 in given:
                return 0
            if kind == "or" and expr.element == "i1" and 1 in given:
                return 1
            whole = [one for one in given if one is not None]
            if len(whole) < len(given):
                return None
            if kind == "compare" and not expr.unsigned:
                return int(HOLDS[str(expr.named["predicate"])](*whole))
            return fold(kind, whole, expr.named, expr.element)
    return None
