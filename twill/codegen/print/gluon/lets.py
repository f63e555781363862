"""Scalars as lines of Gluon: as variables of the kernel, or printed where they are read."""

from __future__ import annotations

from twill.codegen.print.gluon.fold import FOLDED, reads
from twill.codegen.print.gluon.role import Role
from twill.codegen.print.gluon.role_names import base_of
from twill.codegen.print.gluon.scalars import Text
from twill.codegen.warp.expression import Apply, Local
from twill.codegen.warp.program import Let, Pipeline

PARTIAL = 24  # characters of a part of a variable's value that is printed wherever it is read
UNNAMED = "t"  # a scalar for which the kernel has no name


def print_let(stmt: Let, role: Role) -> None:
    """A scalar; in place where it is read once or is no more than a name."""
    text = role.scalar(stmt.value)
    uses = reads(role.stream, stmt.name)
    nameless = base_of(stmt.name) == UNNAMED
    trips = [loop.trip for loop in role.stream.stmts if isinstance(loop, Pipeline)]
    is_trip = nameless and Local(stmt.name) in trips
    repeated = _is_part(stmt, role)
    short = len(text.text) <= (FOLDED if uses == 1 or nameless and not is_trip else PARTIAL if repeated else 0)
    if uses == 0 or short or text.text.isalnum():
        role.locals[stmt.name] = text
        return
    name = role.free_local("steps" if is_trip else stmt.name)
    role.locals[stmt.name] = Text(name)
    role.out.line(f"{name} = {text.text}", stmt.line)


def _is_part(stmt: Let, role: Role) -> bool:
    """Whether a scalar is a part of the value of the kernel's variable after which it is called, and not only its
    multiple."""
    lets = [other for other in role.stream.stmts if isinstance(other, Let) and other.line == stmt.line]
    later = [other for other in lets[lets.index(stmt) + 1 :] if base_of(other.name) == base_of(stmt.name)]
    return any(not isinstance(one.value, Apply) or one.value.kind not in ("mul", "add", "sub") for one in later)
