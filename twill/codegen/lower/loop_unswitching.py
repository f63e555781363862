"""A steady state with what it does now and then, and one without.

A branch in the middle of arithmetic costs the iterations that skip it, too: ptxas moves nothing past it, and MMAs
in flight meanwhile have less to hide behind. There an iteration branches once, when it begins: to a copy in which no
rare guard holds, which is the steady state as if there were none, or to one with all of them. Behind a wait there is
nothing to be moved, and a branch stays where it is: half the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from twill.codegen.warp.expression import Apply, Expr, Number
from twill.codegen.warp.program import Compute, If, Reduce, Scan, Stmt, WaitGroups

HOLDS, FAILS = Number(1, "i1"), Number(0, "i1")


def unswitched(steady: Sequence[Stmt]) -> list[Stmt]:
    """The steady state under one branch; as it is if no rare guard is in the middle of arithmetic."""
    if not splits_arithmetic(steady):
        return list(steady)
    guards = tuple(dict.fromkeys(stmt.condition for stmt in steady if isinstance(stmt, If) and stmt.rare))
    condition = guards[0]
    for guard in guards[1:]:
        condition = Apply("or", (condition, guard), "i1")
    known = {guards[0]: HOLDS} if len(guards) == 1 else {}
    rare = specialized(steady, known)
    clean = specialized(steady, dict.fromkeys(guards, FAILS))
    line = next(stmt.line for stmt in steady if isinstance(stmt, If) and stmt.rare)
    return [If(condition, tuple(rare), tuple(clean), rare=True, line=line)]


def splits_arithmetic(steady: Sequence[Stmt]) -> bool:
    """Whether a rare guard comes later behind a wait for MMAs than what makes the value that it amends. Without
    MMAs nothing is in flight."""
    since: int | None = None
    for stmt in (*steady, *steady):
        if isinstance(stmt, WaitGroups):
            since = 0
        elif isinstance(stmt, If) and stmt.rare and since is not None and since > 1:
            return True
        elif isinstance(stmt, Compute | Reduce | Scan) and since is not None:
            since += 1
    return False


def specialized(stmts: Sequence[Stmt], known: Mapping[Expr, Number]) -> list[Stmt]:
    """The statements where these conditions are known."""
    made: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, If) and stmt.condition in known:
            made += specialized(stmt.body if known[stmt.condition] == HOLDS else stmt.otherwise, known)
        else:
            made.append(folded(stmt, known))
    return made


def folded(thing: Any, known: Mapping[Expr, Number]) -> Any:
    """A statement or an expression with every choice made that is known."""
    if isinstance(thing, tuple):
        return tuple(folded(item, known) for item in thing)
    if isinstance(thing, Apply) and thing.kind == "select" and thing.operands[0] in known:
        return folded(thing.operands[1 if known[thing.operands[0]] == HOLDS else 2], known)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    changed = {field.name: folded(getattr(thing, field.name), known) for field in fields(thing)}
    return replace(thing, **changed)
