"""What an integer expression is known to be a multiple of: proof that neighbours can be moved in one access."""

from __future__ import annotations

from math import gcd

from twill.codegen.cuda.context import Context
from twill.codegen.expression import Apply, Expr, Local, Number, PerGroup, Symbol


def multiple_of(expr: Expr, ctx: Context) -> int:
    """The largest known divisor; 0 if the expression is 0, which everything divides."""
    match expr:
        case Number(value):
            return abs(int(value)) if value == int(value) else 1
        case Symbol(_, name):
            return argument_multiple(name, ctx)
        case Local(name):
            return ctx.multiples.get(name, 1)
        case PerGroup(values):
            return gcd(*(int(value) for value in values))
        case Apply("add" | "sub" | "max" | "min", (left, right)):
            return gcd(multiple_of(left, ctx), multiple_of(right, ctx))
        case Apply("mul", (left, right)):
            return multiple_of(left, ctx) * multiple_of(right, ctx)
        case Apply("select", (_, yes, no)):
            return gcd(multiple_of(yes, ctx), multiple_of(no, ctx))
        case Apply("shl", (left, Number(value))):
            return multiple_of(left, ctx) << int(value)
        case Apply("cast", (operand,)) if operand.element in ("i32", "i64") and expr.element in ("i32", "i64"):
            return multiple_of(operand, ctx)
    return 1


def argument_multiple(name: str, ctx: Context) -> int:
    """Of an argument: an integer, or an address in bytes."""
    return next((a.divisibility for a in ctx.program.program.arguments if a.name == name), 1)
