"""Branches that all threads of a partition take: decided, joined where both sides are alike, or as they are."""

from __future__ import annotations

from functools import partial

from twill import exc
from twill.codegen.print.gluon.loops import PrintBlock, left_in_flight
from twill.codegen.print.gluon.role import Role
from twill.codegen.print.gluon.scalars import ATOM, Text
from twill.codegen.print.gluon.states import joined_sides
from twill.codegen.warp.expression import PerGroup
from twill.codegen.warp.program import If, Stmt

_OTHER = "other row blocks (`--blocks`), or the CUDA form (`--as cuda`)"


def print_branch(stmt: If, role: Role, print_block: PrintBlock) -> None:
    """A branch that all threads of the partition take."""
    among = role.among
    if isinstance(stmt.condition, PerGroup):
        role.among = tuple(place for place in among if stmt.condition.values[place])
    condition = role.scalar(stmt.condition)
    if condition.text in ("True", "False"):
        role.among = among
        if decided := stmt.body if condition.text == "True" else stmt.otherwise:
            print_block(decided, role)
        return
    if not stmt.body:
        role.among = among
        with role.out.block(f"if not {condition.within(ATOM)}", stmt.line):
            print_block(stmt.otherwise, role)
        return
    if (joined := joined_sides(stmt, partial(_waits_alike, role))) is not None:
        name = role.free_local(joined.second)
        role.locals[joined.second] = Text(name)
        role.out.assign(name, condition.text, stmt.line)
        print_block(joined.block, role)
        role.among = among
        return
    if begun := left_in_flight(stmt.body) - role.tokens:
        names = ", ".join(role.name(one) for one in sorted(begun))
        what = f"products of `{names}` are begun under a condition and unfinished behind it"
        raise exc.NotInGluon(what, line=stmt.line, hint=_OTHER)
    before = set(role.tokens), set(role.flying)
    with role.out.block(f"if {condition.text}", stmt.line):
        print_block(stmt.body, role)
    role.among = among
    if stmt.otherwise:
        unfinished, flying = role.tokens, role.flying
        role.tokens, role.flying = before
        with role.out.block("else"):
            print_block(stmt.otherwise, role)
        if role.tokens != unfinished:
            names = ", ".join(role.name(one) for one in sorted(role.tokens ^ unfinished))
            raise exc.NotInGluon(f"products of `{names}` are waited for under a condition", line=stmt.line, hint=_OTHER)
        role.flying |= flying


def _waits_alike(role: Role, one: Stmt, other: Stmt) -> bool:
    """Whether two statements that look the same leave as many products unfinished."""
    return role.products.waits.get(id(one)) == role.products.waits.get(id(other))
