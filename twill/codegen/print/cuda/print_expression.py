"""Scalar expressions as C."""

from __future__ import annotations

import math
from collections.abc import Callable

from twill import exc
from twill.codegen.print.cuda.elements import is_float, rounded
from twill.codegen.print.cuda.print_elementwise import ElementwiseOperation, print_elementwise
from twill.codegen.warp.expression import (
    Apply,
    Element,
    Expr,
    Local,
    Lookup,
    Number,
    NumPrograms,
    PerGroup,
    ProgramId,
    Symbol,
)

Leaf = NumPrograms | Symbol | Local | Element | Lookup | PerGroup
"""What only the scope around an expression can name."""

# Index arithmetic of a kernel does not overflow (the analysis of its addresses rests on that), so that plain
# signed operators say it.
_PLAIN = {"add": "+", "sub": "-", "mul": "*"}


def print_expression(expr: Expr, leaf: Callable[[Leaf], str]) -> str:
    """`expr` as a C expression of `value_type`. leaf: what those are called."""
    match expr:
        case Number(value, element):
            return literal(value, element)
        case ProgramId(axis):
            return f"program_id_{axis}"
        case NumPrograms() | Symbol() | Local() | Element() | Lookup() | PerGroup():
            return leaf(expr)
        case Apply():
            return _apply(expr, leaf)
    raise exc.UnsupportedInKernel(f"no CUDA for the expression {expr!r}")


def _apply(expr: Apply, leaf: Callable[[Leaf], str]) -> str:
    operands = tuple(print_expression(operand, leaf) for operand in expr.operands)
    elements = tuple(operand.element for operand in expr.operands)
    if expr.kind in _PLAIN and expr.element in ("i32", "i64"):
        left, right = (
            f"(i64){text}" if (expr.element, element) == ("i64", "i32") else text
            for text, element in zip(operands, elements, strict=True)
        )
        return f"({left} {_PLAIN[expr.kind]} {right})"
    computed = print_elementwise(
        ElementwiseOperation(expr.kind, operands, elements, expr.element, dict(expr.attributes))
    )
    return computed.text if computed.exact else rounded(expr.element, computed.text)


def literal(value: int | float, element: str) -> str:
    """A number of that type as a C literal."""
    if not is_float(element):
        if element == "i1":
            return "true" if value else "false"
        number = int(value)
        if number == -(1 << 63):
            return "(i64)(1ull << 63)"
        if element == "i64":
            return f"{number}ll"
        return "(i32)0x80000000u" if number == -(1 << 31) else str(number)
    if math.isnan(value) or math.isinf(value):
        named = "not_a_number()" if math.isnan(value) else "infinity()" if value > 0 else "-infinity()"
        return f"(double){named}" if element == "f64" else named
    text = repr(float(value))
    return text if element == "f64" else f"{text}f"
