"""Parts of the columns of a tensor in registers: halves, and halves of those, none of which moves an element."""

from __future__ import annotations

from twill import exc
from twill.codegen.print.gluon.layouts import Products
from twill.codegen.print.gluon.role import Role
from twill.codegen.warp.program import Copy

HELPER = "column_halves"


def print_columns(stmt: Copy, role: Role) -> None:
    """The name of some columns of a tensor; the first time, the tensor is taken apart. Errors: NotInGluon."""
    assert stmt.columns is not None
    first, last = stmt.columns
    if stmt.source not in role.parts:
        _take_apart(stmt, last - first, role)
    role.names[stmt.result] = role.parts[stmt.source][first // (last - first)]


def _take_apart(stmt: Copy, width: int, role: Role) -> None:
    """Lines that name every part of the columns."""
    text, layout = role.value(stmt.source)
    if not isinstance(layout, Products) or layout.columns % width:
        raise exc.NotInGluon("columns of an operand have no printer for Gluon", line=stmt.line)
    parts, columns = [text.text], layout.columns
    while columns > width:
        columns //= 2
        halves: list[str] = []
        for part in parts:
            left, right = (role.free_local(name) for name in ("left", "right"))
            given = f"{part}, {role.layout(Products(columns, layout.rows))}"
            role.out.line(f"{left}, {right} = {HELPER}({given})", stmt.line)
            halves += [left, right]
        parts = halves
    role.parts[stmt.source] = parts
