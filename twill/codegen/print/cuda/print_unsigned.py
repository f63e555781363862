"""Unsigned arithmetic of the tile scheduler as C: no more parentheses than C needs, since people read it."""

from __future__ import annotations

from collections.abc import Callable

from twill import exc
from twill.codegen.warp.expression import Apply, CtaNumber, Expr, Local, Number, NumPrograms, is_unsigned
from twill.tile.vocabulary import COMPARISONS

_BINARY = {"mul": ("*", 5), "div": ("/", 5), "rem": ("%", 5), "add": ("+", 4), "sub": ("-", 4), "and": ("&", 2)}
_COMPARISON, _CHOICE = 3, 1
_CTA = {"cta": "blockIdx.x", "ctas": "gridDim.x", "rank": "cluster_rank()"}


def print_unsigned(expr: Expr, other: Callable[[Expr], str], within: int = 0) -> str:
    """`expr` as a C expression of type u32, or bool for a comparison. other: prints names, and expressions of other
    types. within: how strongly what stands around binds; what binds less strongly stands in parentheses."""
    text, strength = _printed(expr, other)
    return f"({text})" if strength < within else text


def _printed(expr: Expr, other: Callable[[Expr], str]) -> tuple[str, int]:
    match expr:
        case Number(value, "u32"):
            return str(int(value)), 9
        case NumPrograms(axis, "u32"):
            return f"grid{axis}", 9
        case CtaNumber(of):
            return _CTA[of], 9
        case Apply("min" | "max" as kind, operands):
            return f"{kind}({', '.join(_argument(operand, other) for operand in operands)})", 9
        case Apply("select", (condition, one, another)):
            parts = [print_unsigned(operand, other, _CHOICE + 1) for operand in (condition, one, another)]
            return f"{parts[0]} ? {parts[1]} : {parts[2]}", _CHOICE
        case Apply("cast", (operand,), element):
            return f"({element})({_shifted(operand, other)})", 9
        case Apply("compare", (left, right)):
            return _between(COMPARISONS[str(dict(expr.attributes)["predicate"])], _COMPARISON, left, right, other)
        case Apply(kind, (left, right)) if kind in _BINARY:
            return _between(*_BINARY[kind], left, right, other)
        case Local():
            return other(expr), 9
    if is_unsigned(expr):
        raise exc.UnsupportedInKernel(f"no CUDA for the expression {expr!r}")
    return other(expr), 9


def _between(sign: str, strength: int, left: Expr, right: Expr, other: Callable[[Expr], str]) -> tuple[str, int]:
    """Operators bind to the left."""
    one, another = print_unsigned(left, other, strength), print_unsigned(right, other, strength + 1)
    return f"{one} {sign} {another}", strength


def _argument(operand: Expr, other: Callable[[Expr], str]) -> str:
    """Of a function, which goes by the types of its arguments."""
    return f"{operand.value}u" if isinstance(operand, Number) else print_unsigned(operand, other)


def _shifted(operand: Expr, other: Callable[[Expr], str]) -> str:
    """What is cast: of an ordinary expression, maybe shifted to the right by a literal."""
    match operand:
        case Apply("shr", (value, Number(bits))) if not is_unsigned(operand):
            return f"({other(value)}) >> {bits}"
    return print_unsigned(operand, other)
