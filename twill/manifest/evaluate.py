"""Scalar expressions of a manifest: sizes, strides and offsets of tensor maps, over the scalars of a launch.

Grammar::

    Scalar    ::= Number | Name | Operation
    Number    ::= an integer or a float                (JSON: a number)
    Name      ::= a scalar argument                    (JSON: a text, "M" or "a_desc.stride.0"), or a size of the
                  launch grid ("grid.0")
    Operation ::= kind element Scalar* attribute*      (JSON: {"kind": "add", "element": "i32", "operands": [...]})

Kinds and attributes are those of `twill.tile.vocabulary`, and "evenly" of how many things there are and how many a
group may have: the width of groups that are about as wide as one another, the last at least half as wide;
"reciprocal" and "reciprocal_shift" of a divisor (`reciprocal`). Integers
behave as in the kernel: division truncates towards zero, the remainder has the sign of the dividend. What leaves its
element type raises OverflowError rather than wrap around: an address made of it would be wrong.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

GRID, EVENLY = "grid", "evenly"
RECIPROCAL, RECIPROCAL_SHIFT = "reciprocal", "reciprocal_shift"
BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


@dataclass(frozen=True)
class ScalarOperation:
    """A scalar operation; attributes as of the tile operation (predicate, signed)."""

    kind: str
    element: str
    operands: tuple[Scalar, ...]
    attributes: tuple[tuple[str, int | float | str], ...] = ()


Scalar = int | float | str | ScalarOperation


def evaluate(scalar: Scalar, values: Mapping[str, int | float]) -> int | float:
    """The value where names have `values`. Errors: KeyError (no such name), OverflowError, ZeroDivisionError."""
    if isinstance(scalar, str):
        return values[scalar]
    if not isinstance(scalar, ScalarOperation):
        return scalar
    operands = [evaluate(operand, values) for operand in scalar.operands]
    result: int | float = _KINDS[scalar.kind](dict(scalar.attributes), *operands)
    return _fitting(result, scalar)


def names(scalar: Scalar) -> Iterator[str]:
    """The scalars that it needs."""
    if isinstance(scalar, str):
        yield scalar
    elif isinstance(scalar, ScalarOperation):
        for operand in scalar.operands:
            yield from names(operand)


def reciprocal(divisor: int) -> tuple[int, int]:
    """A factor f and a shift s, so that (n * f) >> s is n // abs(divisor) for n from 0 to 2^31 - 1, and n * f is below
    2^63. (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994: f is 2^s / divisor,
    rounded up, and s is 31 more than the bits of divisor - 1.) Of 0, what is of 1."""
    size = max(abs(divisor), 1)
    shift = 31 + (size - 1).bit_length()
    return -(-(1 << shift) // size), shift


def evaluable(kind: str) -> bool:
    """Whether `evaluate` knows an operation of this kind."""
    return kind in _KINDS


def _fitting(result: int | float, scalar: ScalarOperation) -> int | float:
    bits = BITS.get(scalar.element)
    if bits is None:
        return float(result)
    result = int(result)
    if bits > 1 and not -(1 << bits - 1) <= result < 1 << bits - 1:
        raise OverflowError(f"{scalar.kind} gives {result}, beyond {scalar.element}")
    return result


def _divide(_: Mapping[str, Any], a: int | float, b: int | float) -> int | float:
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(attributes: Mapping[str, Any], a: int | float, b: int | float) -> int | float:
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    return a - b * _divide(attributes, a, b)


def _compare(attributes: Mapping[str, Any], a: int | float, b: int | float) -> int:
    return int(HOLDS[attributes["predicate"]](a, b))


def _evenly(_: Mapping[str, Any], things: int, most: int) -> int:
    width = max(1, -(-things // max(1, -(-things // max(1, most)))))
    while 2 * ((things - 1) % width + 1) < width:
        width -= 1
    return width


HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip

_KINDS: dict[str, Callable[..., Any]] = {
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": lambda _, a, b: a * b,
    "div": _divide,
    "rem": _remainder,
    "neg": lambda _, a: -a,
    "abs": lambda _, a: abs(a),
    "min": lambda _, a, b: min(a, b),
    "max": lambda _, a, b: max(a, b),
    "and": lambda _, a, b: a & b,
    "or": lambda _, a, b: a | b,
    "xor": lambda _, a, b: a ^ b,
    "shl": lambda _, a, b: a << b,
    "shr": lambda _, a, b: a >> b,
    "compare": _compare,
    "select": lambda _, condition, a, b: a if condition else b,
    "cast": lambda _, a: a,
    EVENLY: _evenly,
    RECIPROCAL: lambda _, a: reciprocal(a)[0],
    RECIPROCAL_SHIFT: lambda _, a: reciprocal(a)[1],
}
