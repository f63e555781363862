"""Arithmetic with unsigned numbers (u32, modulo 2^32) in the statements of the tile scheduler."""

from __future__ import annotations

from functools import partial

from twill.codegen.warp.expression import Apply, Expr, Local, Number, NumPrograms

Term = Expr | str | int
"""An expression, or the name of a scalar, or a number."""


def of(term: Term) -> Expr:
    """A term as an expression."""
    match term:
        case str():
            return Local(term, "u32")
        case int():
            return Number(term, "u32")
    return term


def grid(axis: int) -> Expr:
    """The extent of the launch grid along an axis."""
    return NumPrograms(axis, "u32")


_SIGNS = ("div", "rem", "min", "max")  # operations that say whether their operands have signs


def apply(kind: str, *operands: Term) -> Expr:
    """An operation."""
    return Apply(kind, tuple(map(of, operands)), "u32", (("signed", 0),) if kind in _SIGNS else ())


plus, minus, times, over, rest = (partial(apply, kind) for kind in ("add", "sub", "mul", "div", "rem"))
least, most = (partial(apply, kind) for kind in ("min", "max"))


def select(condition: Expr, left: Term, right: Term) -> Expr:
    """`left` where the condition holds, else `right`."""
    return Apply("select", (condition, of(left), of(right)), "u32")


def compare(predicate: str, left: Term, right: Term) -> Expr:
    """Whether it holds."""
    return Apply("compare", (of(left), of(right)), "i1", (("predicate", predicate), ("signed", 0)))


equal, below = (partial(compare, predicate) for predicate in ("eq", "lt"))
