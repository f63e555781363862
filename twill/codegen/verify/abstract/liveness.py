"""How many registers the fragments of a warp group need at once, about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from twill.codegen.warp.effects import effects
from twill.codegen.warp.layout import Accumulator, Layout, elements_of
from twill.codegen.warp.program import Compute, Fragment, If, Pipeline, Stmt, WarpGroup

BITS = {"i1": 1, "i8": 8, "f8e4m3": 8, "f8e5m2": 8, "i16": 16, "f16": 16, "bf16": 16, "i64": 64, "f64": 64}


def registers_of(fragment: Fragment) -> int:
    """32-bit registers of each thread; small elements are packed, truth values are bits."""
    return -(-elements_of(fragment.layout) * BITS.get(fragment.element, 32) // 32)


def crowded(live: int, registers: int) -> int:
    """By how many registers fragments that are alive at once are too many for a warp group's; 0 if they are not. An
    estimate: the compiler computes chains element by element and needs less than whole fragments."""
    return max(0, -(-live * 4 // 5) - registers)


def peak(group: WarpGroup) -> tuple[int, int]:
    """The most registers that fragments need at once, and the kernel line of that place.

    Backwards over the body with every steady state twice, as if every condition held, and then did not. What follows
    one another on a matrix is computed element by element: only what it begins and ends with is whole.
    """
    size = {fragment.id: registers_of(fragment) for fragment in group.fragments}
    layouts = {fragment.id: fragment.layout for fragment in group.fragments}
    live: set[int] = set()
    most, where = 0, 0
    for before, stmt in reversed([*pairwise((None, *_flat(group.body)))]):
        assert stmt is not None
        written, read = effects(stmt)
        live = live - written | read
        now = sum(size.get(fragment, 0) for fragment in live)
        if now > most and not _goes_on(before, stmt, layouts):
            most, where = now, stmt.line
    return most, where


def _goes_on(before: Stmt | None, stmt: Stmt, layouts: Mapping[int, Layout]) -> bool:
    """Whether two statements are steps of one chain on a matrix."""
    if not isinstance(before, Compute) or not isinstance(stmt, Compute):
        return False
    return isinstance(layouts[stmt.result], Accumulator) and layouts[stmt.result] == layouts[before.result]


def _flat(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for stmt in stmts:
        if isinstance(stmt, If):
            yield from _flat(stmt.body)
            yield from _flat(stmt.otherwise)
        elif isinstance(stmt, Pipeline):
            twice = (block for block in stmt.steadies for _ in range(2))
            for block in (*stmt.prologue, *twice, *stmt.epilogue):
                yield from _flat(block)
        else:
            yield stmt
