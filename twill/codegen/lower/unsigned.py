"""Arithmetic with unsigned numbers (u32, modulo 2^32) in the statements of the tile scheduler."""

from __future__ import annotations

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


def plus(left: Term, right: Term) -> Expr:
    """left + right."""
    return apply("add", left, right)


def minus(left: Term, right: Term) -> Expr:
    """left - right."""
    return apply("sub", left, right)


def times(left: Term, right: Term) -> Expr:
    """left * right."""
    return apply("mul", left, right)


def over(left: Term, right: Term) -> Expr:
    """left / right."""
    return apply("div", left, right)


def rest(left: Term, right: Term) -> Expr:
    """left % right."""
    return apply("rem", left, right)


def least(left: Term, right: Term) -> Expr:
    """The smaller one."""
    return apply("min", left, right)


def most(left: Term, right: Term) -> Expr:
    """The larger one."""
    return apply("max", left, right)


def select(condition: Expr, left: Term, right: Term) -> Expr:
    """`left` where the condition holds, else `right`."""
    return Apply("select", (condition, of(left), of(right)), "u32")


def equal(left: Term, right: Term) -> Expr:
    """Whether they are equal."""
    return Apply("compare", (of(left), of(right)), "i1", (("predicate", "eq"), ("signed", 0)))


def below(left: Term, right: Term) -> Expr:
    """left < right."""
    return Apply("compare", (of(left), of(right)), "i1", (("predicate", "lt"), ("signed", 0)))
