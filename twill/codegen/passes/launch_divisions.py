"""Divisions of a grid index by what all instances have in common are multiplications.

A CTA begins with one of them in front of its first load: some 45 instructions, one behind the other, for a division by
an integer that is not in the code. The launch can look for a factor and a shift once for all of them
(`twill.manifest.evaluate.reciprocal`)::

    given divide.factor = reciprocal(tiles)
    given divide.shift = reciprocal_shift(tiles)
    let divide.quotient = ((program_id(0) * divide.factor) >> divide.shift) * sign of tiles
    let first = divide.quotient
    let rest = program_id(0) - divide.quotient * tiles

Nobody promises that a divisor is positive; of a division by zero Triton says nothing, and neither does this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from twill.codegen.passes.given import may_be_given, with_given
from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.expression import Apply, Expr, Local, Number, ProgramId, inlined
from twill.codegen.warp.program import Let, Stmt, WarpGroup, WarpProgram
from twill.manifest.evaluate import RECIPROCAL, RECIPROCAL_SHIFT

NARROW, WIDE = "i32", "i64"
OWN = "divide."  # in front of names, so that no scalar of a kernel has them
DIVISIONS = ("div", "rem")


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    reciprocals = _Reciprocals()
    made = each_body(program, lambda group: tuple(_divided(group, program, reciprocals)))
    found = {}
    for divisor, (factor, shift) in reciprocals.names.items():
        found[factor] = Apply(RECIPROCAL, (divisor,), WIDE)
        found[shift] = Apply(RECIPROCAL_SHIFT, (divisor,), WIDE)
    return with_given(made, found)


@dataclass
class _Reciprocals:
    """The names of those that are asked for, by what they are of."""

    names: dict[Expr, tuple[str, str]] = field(default_factory=dict)

    def of(self, divisor: Expr) -> tuple[str, str]:
        """The names of factor and shift."""
        number = len(self.names) or ""
        return self.names.setdefault(divisor, (f"{OWN}factor{number}", f"{OWN}shift{number}"))


def _divided(group: WarpGroup, program: WarpProgram, reciprocals: _Reciprocals) -> Iterator[Stmt]:
    """The body of a warp group, whose grid indices are divided so."""
    known: dict[str, Expr] = {}
    quotients: dict[tuple[Expr, Expr], str] = {}
    for stmt in group.body:
        if not isinstance(stmt, Let):
            yield stmt
            continue
        known[stmt.name] = inlined(stmt.value, known)
        value = stmt.value
        if not (isinstance(value, Apply) and value.kind in DIVISIONS and value.element == NARROW):
            yield stmt
            continue
        dividend, divisor = value.operands
        common = inlined(divisor, known)
        if not isinstance(dividend, ProgramId) or isinstance(common, Number) or not may_be_given(program, common):
            yield stmt
            continue
        name = quotients.setdefault((dividend, common), f"{OWN}quotient{len(quotients) or ''}")
        if name not in known:
            known[name] = Local(name)
            yield Let(name, quotient(dividend, divisor, *reciprocals.of(common)), line=stmt.line)
        found: Expr = Local(name)
        if value.kind == "rem":
            found = Apply("sub", (dividend, Apply("mul", (found, divisor), NARROW)), NARROW)
        yield Let(stmt.name, found, line=stmt.line, note=stmt.note)


def quotient(dividend: Expr, divisor: Expr, factor: str, shift: str) -> Expr:
    """Of a grid index."""
    product = Apply("mul", (Apply("cast", (dividend,), WIDE), Local(factor, WIDE)), WIDE)
    size = Apply("cast", (Apply("shr", (product, Local(shift, WIDE)), WIDE, SIGNED),), NARROW)
    sign = Apply("or", (Apply("shr", (divisor, Number(31)), NARROW, SIGNED), Number(1)), NARROW)
    return Apply("mul", (size, sign), NARROW)


SIGNED: tuple[tuple[str, int | float | str], ...] = (("signed", 1),)
