"""The value of a scalar expression in a warp group of one program instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twill.codegen.warp.expression import (
    Apply,
    CtaNumber,
    Element,
    Expr,
    Local,
    Lookup,
    Number,
    NumPrograms,
    ProgramId,
    Symbol,
)
from twill.tile.interpret.arithmetic import Array, apply, rounded

Scalar = Any  # a Python int, or a NumPy scalar


@dataclass
class EvaluationScope:
    """What expressions refer to. arguments: by name. element: reads a fragment of layout Uniform. cta: which CTA it is
    (`Cta`)."""

    arguments: Mapping[str, int | float]
    grid: tuple[int, int, int]
    index: tuple[int, int, int]
    element: Callable[[int], Scalar]
    names: dict[str, Scalar] = field(default_factory=dict)
    cta: Mapping[str, int] = field(default_factory=dict)
    tensors: Mapping[str, Array] | None = None  # what lookups read; None: nothing is known of it, and taken for 0


def no_element(fragment: int) -> Scalar:
    """Of a scope in which nothing is loaded yet."""
    raise KeyError(fragment)


def evaluate(expr: Expr, scope: EvaluationScope) -> Scalar:
    """The number: a Python int for integers of 32 and 64 bits, else a NumPy scalar. KeyError: an unknown name."""
    if isinstance(expr, Apply):
        return _apply(expr, scope)
    if isinstance(expr, Local):
        return scope.names[expr.name]
    match expr:
        case Number(value, element):
            return value if element in _INTEGERS else rounded(value, element)[()]
        case Symbol(_, name, element):
            value = scope.arguments[name]
            return int(value) if element in ("i32", "i64") else rounded(value, element)[()]
        case ProgramId(axis):
            return scope.index[axis]
        case NumPrograms(axis):
            return scope.grid[axis]
        case CtaNumber(of):
            return scope.cta[of]
        case Element(fragment):
            return scope.element(fragment)
        case Lookup(argument, index, element, condition, pad):
            touched = condition is None or bool(evaluate(condition, scope))
            if scope.tensors is None:
                return 0 if element in ("i32", "i64") else rounded(0, element)[()]
            at, tensor = integer(index, scope), scope.tensors[argument]
            if touched and not 0 <= at < tensor.size:
                raise IndexError(f"element {at} of `{argument}`")
            value = rounded(tensor[at] if touched else pad, element)[()]
            return int(value) if element in ("i32", "i64") else value


def integer(expr: Expr, scope: EvaluationScope) -> int:
    """The number as an int."""
    return int(evaluate(expr, scope))


_INTEGERS = ("i32", "i64", "u32")

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "lt": int.__lt__, "le": int.__le__, "gt": int.__gt__, "ge": int.__ge__, "eq": int.__eq__, "ne": int.__ne__,
}  # fmt: skip
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "max": max, "min": min,
}  # fmt: skip


def _apply(expr: Apply, scope: EvaluationScope) -> Scalar:
    operands = [evaluate(operand, scope) for operand in expr.operands]
    if expr.unsigned:
        return _unsigned(expr, operands)
    known = of_integers(expr.kind, operands, expr.element, expr.named)
    if known is not None:
        return known
    sources = [operand.element for operand in expr.operands]
    arrays = [rounded(operand, source) for operand, source in zip(operands, sources, strict=True)]
    value = apply(expr.kind, arrays, expr.element, expr.named, sources)[()]
    return int(value) if expr.element in ("i32", "i64") else value


def of_integers(kind: str, operands: Sequence[Scalar], element: str, attributes: Mapping[str, Any]) -> int | None:
    """The result of an operation on two signed Python integers, as its type holds it; None: it is none of these."""
    if len(operands) != 2:
        return None
    left, right = operands
    if type(left) is not int or type(right) is not int or not attributes.get("signed", 1):
        return None
    if kind == "compare":
        return _COMPARE[str(attributes["predicate"])](left, right)
    if element not in ("i32", "i64"):
        return None
    if kind in _INTEGER:
        return wrapped(_INTEGER[kind](left, right), element)
    if kind in ("div", "rem") and right:
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return wrapped(quotient if kind == "div" else left - right * quotient, element)
    return None


def _unsigned(expr: Apply, operands: list[Scalar]) -> int:
    """Of the tile scheduler: modulo 2^32. What is divided by 0 is used by no instance; its value is that of PTX."""
    numbers = [int(operand) for operand in operands]
    match expr.kind, numbers:
        case "select", [condition, one, other]:
            found = one if condition else other
        case "cast", [found]:
            pass
        case "compare", [left, right]:
            return int(_COMPARE[str(expr.named["predicate"])](left, right))
        case "div", [left, right]:
            found = left // right if right else -1
        case "rem", [left, right]:
            found = left % right if right else left
        case "and", [left, right]:
            found = left & right
        case kind, [left, right]:
            found = _INTEGER[kind](left, right)
        case _:
            raise ValueError(f"unsigned numbers have no operation `{expr.kind}`")
    return found % (1 << 32)


def wrapped(value: int, element: str) -> int:
    """An integer as its type holds it."""
    bits = 31 if element == "i32" else 63
    return (value + (1 << bits)) % (1 << (bits + 1)) - (1 << bits)
