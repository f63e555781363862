"""What an integer expression is known to be a multiple of: proof that neighbours can be moved in one access."""

from __future__ import annotations

from math import gcd

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.warp import multiples
from twill.codegen.warp.expression import Expr, PerGroup
from twill.codegen.warp.layout import Blocked, Layout
from twill.codegen.warp.program import Compute, Copy, Fill, Operand, Range, Reg


def multiple_of(expr: Expr, ctx: PrintContext) -> int:
    """The largest known divisor; 0 if the expression is 0, which everything divides."""
    return multiples.multiple_of(expr, {a.name: a.divisibility for a in ctx.program.program.arguments}, ctx.multiples)


def argument_multiple(name: str, ctx: PrintContext) -> int:
    """Of an argument: an integer, or an address in bytes."""
    return next((a.divisibility for a in ctx.program.program.arguments if a.name == name), 1)


def base_multiple(operand: Operand, ctx: PrintContext) -> int:
    """Of a scalar, or of the base of a tile of indices (`twill.codegen.print.cuda.index_fragments`) in every thread."""
    return _multiple_of_base(operand, ctx, ())


def _multiple_of_base(operand: Operand, ctx: PrintContext, above: tuple[int, ...]) -> int:
    """above: fragments that are being looked at; what they are made from themselves changes no divisor of the rest."""
    if not isinstance(operand, Reg):
        return multiple_of(operand, ctx)
    number = operand.fragment
    if number in above:
        return 0
    found = 0
    for stmt in ctx.group.stmts:
        if getattr(stmt, "result", None) != number:
            continue
        match stmt:
            case Range(_, start):
                starts = start.values if isinstance(start, PerGroup) else (start,)
                lanes = _lane_multiple(ctx.fragment(number).layout)
                found = gcd(found, lanes, *(int(value) for value in starts))
            case Fill(_, value):
                found = gcd(found, multiple_of(value, ctx))
            case Copy(source, _, None):
                found = gcd(found, _multiple_of_base(Reg(source), ctx, (*above, number)))
            case Compute("add" | "sub", operands, _):
                found = gcd(found, *(_multiple_of_base(o, ctx, (*above, number)) for o in operands))
            case Compute("mul", (left, right), _):
                parts = [_multiple_of_base(o, ctx, (*above, number)) for o in (left, right)]
                found = gcd(found, parts[0] * parts[1])
            case _:
                return 1
    return found


def _lane_multiple(layout: Layout) -> int:
    """What the thread's part of an index in a vector is a multiple of."""
    return layout.run if isinstance(layout, Blocked) and len(layout.shape) == 1 else 1
