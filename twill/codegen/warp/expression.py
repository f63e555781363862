"""Scalar expressions of a warp program: addresses, bounds, guards; the same in all threads of a warp group.

Grammar::

    Expr ::= Number value                 (a literal)
           | Symbol value                 (a scalar argument of the tile program, by value id)
           | ProgramId axis | NumPrograms axis
           | Local name                   (what a Let or a Pipeline around, or the tile scheduler, defines)
           | CtaNumber of                       (which CTA this is; of the tile scheduler alone, as all of element u32)
           | Element fragment             (a fragment of layout Uniform: one scalar, in every thread)
           | Apply kind Expr* attribute*  (a scalar operation of `twill.tile.vocabulary`)
           | Lookup argument Expr Expr?   (an element of a tensor that the kernel does not write)
           | PerGroup number*             (a literal of each warp group of a section, see
           `twill.codegen.print.sections`;
                                           in no warp program)

Every expression has an element type as in `TileType.element` (i1 i32 i64 f32 ...), or u32: a number modulo 2^32.
Division of integers truncates towards zero and the remainder has the sign of the dividend, as in C and in Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True)
class Number:
    """A literal."""

    value: int | float
    element: str = "i32"


@dataclass(frozen=True)
class Symbol:
    """A scalar argument: `value` is its value id in the tile program, `name` the argument's name."""

    value: int
    name: str
    element: str


@dataclass(frozen=True)
class ProgramId:
    """The grid index of the program instance that runs, along an axis 0 to 2."""

    axis: int
    element: str = "i32"


@dataclass(frozen=True)
class NumPrograms:
    """The size of the launch grid along an axis."""

    axis: int
    element: str = "i32"


@dataclass(frozen=True)
class Local:
    """A name defined by a Let before, or the step counter of a Pipeline around."""

    name: str
    element: str = "i32"


@dataclass(frozen=True)
class CtaNumber:
    """of: "cta", the number of the CTA in its launch; "ctas", how many there are; "rank", its number in its cluster."""

    of: str
    element: str = "u32"


@dataclass(frozen=True)
class Element:
    """The one number that a fragment of layout Uniform holds (in the warp group that evaluates it)."""

    fragment: int
    element: str


@dataclass(frozen=True)
class Apply:
    """A scalar operation. attributes: as of the tile operation (predicate, signed, ...)."""

    kind: str
    operands: tuple[Expr, ...]
    element: str
    attributes: tuple[tuple[str, int | float | str | tuple[int, ...]], ...] = ()

    @cached_property
    def named(self) -> Mapping[str, int | float | str | tuple[int, ...]]:
        """The attributes by name."""
        return dict(self.attributes)

    @cached_property
    def unsigned(self) -> bool:
        """Whether it or an operand is a number modulo 2^32."""
        return "u32" in (self.element, *(operand.element for operand in self.operands))


@dataclass(frozen=True)
class Lookup:
    """The element at `index` (in elements, i64) of the tensor `argument`, which the kernel does not write; `pad`, and
    nothing is touched, where `condition` does not hold (None: it always does)."""

    argument: str
    index: Expr
    element: str
    condition: Expr | None = None
    pad: float = 0.0


@dataclass(frozen=True)
class PerGroup:
    """A literal that differs between the warp groups that are printed as one: one number for each of them."""

    values: tuple[int | float, ...]
    element: str = "i32"


Expr = Number | Symbol | ProgramId | NumPrograms | Local | CtaNumber | Element | Apply | Lookup | PerGroup


def is_unsigned(expr: Expr) -> bool:
    """Whether an expression is arithmetic with unsigned numbers: of the tile scheduler."""
    return expr.element == "u32" or (isinstance(expr, Apply) and any(map(is_unsigned, expr.operands)))


def add(left: Expr, right: Expr) -> Expr:
    """left + right, folded where both are literals or one is 0."""
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value + right.value, left.element)
    if left == Number(0, left.element):
        return right
    if right == Number(0, right.element):
        return left
    return Apply("add", (left, right), wider(left, right))


def moved(expr: Expr, by: int) -> Expr:
    """expr + by, in its own type."""
    return add(expr, Number(by, expr.element))


def multiply(left: Expr, right: Expr) -> Expr:
    """left * right, folded where both are literals or one is 0 or 1."""
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value * right.value, left.element)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Number) and one.value == 1:
            return other
        if isinstance(one, Number) and one.value == 0:
            return Number(0, wider(left, right))
    return Apply("mul", (left, right), wider(left, right))


def subtract(left: Expr, right: Expr) -> Expr:
    """left - right, folded where both are literals or right is 0."""
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value - right.value, left.element)
    if right == Number(0, right.element):
        return left
    return Apply("sub", (left, right), wider(left, right))


def replaced(expr: Expr, known: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with others in place of parts of it. known: what stands in place of one; None: itself."""
    found = known(expr)
    if found is not None:
        return found
    match expr:
        case Apply(_, operands):
            return replace(expr, operands=tuple(replaced(operand, known) for operand in operands))
        case Lookup(index=index, condition=condition):
            mask = None if condition is None else replaced(condition, known)
            return replace(expr, index=replaced(index, known), condition=mask)
    return expr


def inlined(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    """The expression with the values of scalars that are known in place of their names."""
    return replaced(expr, lambda part: known.get(part.name) if isinstance(part, Local) else None)


def less(left: Expr, right: Expr) -> Expr:
    """left < right, signed."""
    return Apply("compare", (left, right), "i1", (("predicate", "lt"), ("signed", 1)))


def wider(left: Expr, right: Expr) -> str:
    """i64 if one of two integers is, else i32."""
    return "i64" if "i64" in (left.element, right.element) else left.element
