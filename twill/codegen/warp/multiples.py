"""What an integer expression is known to be a multiple of."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, isfinite

from twill.codegen.warp.expression import Apply, Expr, Local, Number, PerGroup, Symbol


def multiple_of(expr: Expr, arguments: Mapping[str, int], locals_: Mapping[str, int]) -> int:
    """The largest known divisor; 0 if the expression is 0, which everything divides. arguments, locals_: what those
    are known to be multiples of, by name (1 if they are not there)."""
    match expr:
        case Number(value):
            return abs(int(value)) if isfinite(value) and value == int(value) else 1
        case Symbol(_, name):
            return arguments.get(name, 1)
        case Local(name):
            return locals_.get(name, 1)
        case PerGroup(values):
            return gcd(*(int(value) for value in values))
    if not isinstance(expr, Apply):
        return 1
    parts = [multiple_of(operand, arguments, locals_) for operand in expr.operands]
    match expr:
        case Apply("add" | "sub" | "max" | "min"):
            return gcd(*parts)
        case Apply("mul"):
            return parts[0] * parts[1]
        case Apply("select"):
            return gcd(*parts[1:])
        case Apply("shl", (_, Number(value))):
            return parts[0] << int(value)
        case Apply("cast", (operand,)) if operand.element in ("i32", "i64") and expr.element in ("i32", "i64"):
            return parts[0]
    return 1
