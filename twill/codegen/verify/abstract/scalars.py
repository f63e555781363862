"""The value of a scalar expression in a warp group of one program instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twill.codegen.warp.by_identity import by_identity
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
from twill.manifest.evaluate import HOLDS, RECIPROCAL, RECIPROCAL_SHIFT, reciprocal
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


Code = Callable[[EvaluationScope], Scalar]


def evaluate(expr: Expr, scope: EvaluationScope) -> Scalar:
    """The number: a Python int for integers of 32 and 64 bits, else a NumPy scalar. KeyError: an unknown name."""
    return _code_of_root(expr)(scope)


def _code(expr: Expr) -> Code:
    """An expression as a function, which is called much more often than it is made. It does not hold `expr`."""
    match expr:
        case Apply():
            return _applied(expr)
        case Local(name):
            return lambda scope: scope.names[name]
        case Number(value, element):
            number = value if element in _INTEGERS else rounded(value, element)[()]
            return lambda scope: number
        case Symbol(_, name, element) if element in ("i32", "i64"):
            return lambda scope: int(scope.arguments[name])
        case Symbol(_, name, element):
            return lambda scope: rounded(scope.arguments[name], element)[()]
        case ProgramId(axis):
            return lambda scope: scope.index[axis]
        case NumPrograms(axis):
            return lambda scope: scope.grid[axis]
        case CtaNumber(of):
            return lambda scope: scope.cta[of]
        case Element(fragment):
            return lambda scope: scope.element(fragment)
        case Lookup(argument, index, element, condition, pad):
            return _looked_up(argument, _code(index), element, None if condition is None else _code(condition), pad)
    raise TypeError(f"no number: {expr}")


def _looked_up(argument: str, index: Code, element: str, condition: Code | None, pad: float) -> Code:
    whole = element in ("i32", "i64")

    def found(scope: EvaluationScope) -> Scalar:
        touched = condition is None or bool(condition(scope))
        if scope.tensors is None:
            return 0 if whole else rounded(0, element)[()]
        at, tensor = int(index(scope)), scope.tensors[argument]
        if touched and not 0 <= at < tensor.size:
            raise IndexError(f"element {at} of `{argument}`")
        value = rounded(tensor[at] if touched else pad, element)[()]
        return int(value) if whole else value

    return found


_code_of_root = by_identity(_code)


def integer(expr: Expr, scope: EvaluationScope) -> int:
    """The number as an int."""
    return int(evaluate(expr, scope))


_INTEGERS = ("i32", "i64", "u32")

_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": int.__add__, "sub": int.__sub__, "mul": int.__mul__, "max": max, "min": min,
}  # fmt: skip


def _applied(expr: Apply) -> Code:
    kind, element, named = expr.kind, expr.element, expr.named
    operands = [_code(operand) for operand in expr.operands]
    sources = [operand.element for operand in expr.operands]
    if kind in (RECIPROCAL, RECIPROCAL_SHIFT):
        return lambda scope: reciprocal(int(operands[0](scope)))[kind == RECIPROCAL_SHIFT]
    if expr.unsigned:
        return lambda scope: _unsigned(kind, [operand(scope) for operand in operands], named)

    def general(numbers: Sequence[Scalar]) -> Scalar:
        arrays = [rounded(number, source) for number, source in zip(numbers, sources, strict=True)]
        value = apply(kind, arrays, element, named, sources)[()]
        return int(value) if element in ("i32", "i64") else value

    quick = integer_operation(kind, element, named)
    if quick is None or len(operands) != 2:
        return lambda scope: general([operand(scope) for operand in operands])
    first, second = operands

    def applied(scope: EvaluationScope) -> Scalar:
        left, right = first(scope), second(scope)
        known = quick(left, right) if type(left) is int and type(right) is int else None
        return general((left, right)) if known is None else known

    return applied


Operation = Callable[[int, int], int | None]


def integer_operation(kind: str, element: str, attributes: Mapping[str, Any]) -> Operation | None:
    """An operation on two signed Python integers, whose result is as its type holds it; None: it is none of these, or
    (as result) it is not defined for these two."""
    if not attributes.get("signed", 1):
        return None
    if kind == "compare":
        return HOLDS[str(attributes["predicate"])]
    if element not in ("i32", "i64") or kind not in ("div", "rem", *_INTEGER):
        return None
    bits = 31 if element == "i32" else 63
    least, most, turn = -(1 << bits), (1 << bits) - 1, 1 << (bits + 1)
    function = _INTEGER.get(kind) or (_quotient if kind == "div" else _remainder)

    def operation(left: int, right: int) -> int | None:
        found = function(left, right)
        return found if found is None or least <= found <= most else (found - least) % turn + least

    return operation


def _quotient(left: int, right: int) -> int | None:
    """Truncated towards zero."""
    if not right:
        return None
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _remainder(left: int, right: int) -> int | None:
    """With the sign of the dividend."""
    quotient = _quotient(left, right)
    return None if quotient is None else left - right * quotient


def _unsigned(kind: str, operands: list[Scalar], named: Mapping[str, Any]) -> int:
    """Of the tile scheduler: modulo 2^32. What is divided by 0 is used by no instance; its value is that of PTX."""
    numbers = [int(operand) for operand in operands]
    match kind, numbers:
        case "select", [condition, one, other]:
            found = one if condition else other
        case "cast", [found]:
            pass
        case "compare", [left, right]:
            return int(HOLDS[str(named["predicate"])](left, right))
        case "div", [left, right]:
            found = left // right if right else -1
        case "rem", [left, right]:
            found = left % right if right else left
        case "and", [left, right]:
            found = left & right
        case _, [left, right]:
            found = _INTEGER[kind](left, right)
        case _:
            raise ValueError(f"unsigned numbers have no operation `{kind}`")
    return found % (1 << 32)


def wrapped(value: int, element: str) -> int:
    """An integer as its type holds it."""
    bits = 31 if element == "i32" else 63
    return (value + (1 << bits)) % (1 << (bits + 1)) - (1 << bits)
