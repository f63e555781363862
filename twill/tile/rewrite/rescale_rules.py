"""What each tile operation makes of the laws of its operands: one small rule for a family of operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.tile.program import Op, TileType
from twill.tile.rewrite.rescale_algebra import (
    BROKEN,
    LOWEST,
    OPEN,
    STILL,
    ZERO,
    Law,
    NotCompensated,
    added,
    multiplied,
    of,
    same,
)
from twill.tile.vocabulary import MINUS

WIDE = ("f32", "f64")
AS_FAR = (*WIDE, "bf16")  # types that reach as far as f32


@dataclass(frozen=True)
class Made:
    """An operation with what is known of its operands. laws, types: of each; number: if it is a constant, spread or
    not; result: its type."""

    op: Op
    laws: tuple[Law, ...]
    types: tuple[TileType, ...]
    numbers: tuple[float | None, ...]
    result: TileType

    @property
    def still(self) -> bool:
        """Whether no operand changes with the shift."""
        return all(law.still for law in self.laws)


Rule = Callable[[Made], Law]


def law_of(made: Made) -> Law:
    """The law of the result. Raises NotCompensated if it follows none."""
    if BROKEN in made.laws:
        return BROKEN
    rule = RULES.get(made.op.kind)
    if rule is None or (made.op.kind not in _JOINS and OPEN in made.laws):
        if OPEN in made.laws:
            return OPEN
        if not made.still:
            raise NotCompensated(f"`{made.op.kind}` of it is no function of what the shift leaves as it is")
        return STILL
    return rule(made)


# -- sources and views ------------------------------------------------------------------------------


def _constant(made: Made) -> Law:
    value = made.op.attribute("value")
    if made.result.element.startswith("i") or isinstance(value, str | tuple):
        return STILL
    return ZERO if value == 0 else LOWEST if value == -math.inf else STILL


def _spread(made: Made) -> Law:
    (law,), (kind,) = made.laws, made.types
    if law.degrees and made.op.kind == "broadcast" and kind.shape[law.axis] != made.result.shape[law.axis]:
        raise NotCompensated("rows are spread over rows")
    return law


def _expand(made: Made) -> Law:
    (law,), axis = made.laws, _axis(made.op)
    return law.along(law.axis + (axis <= law.axis))


def _transpose(made: Made) -> Law:
    (law,), order = made.laws, made.op.attribute("order")
    assert isinstance(order, tuple)
    return law.along(order.index(law.axis)) if law.degrees else law


# -- elementwise ------------------------------------------------------------------------------------


def _add(made: Made) -> Law:
    one, other = made.laws
    if OPEN in made.laws:
        known = other if one == OPEN else one
        return known if known.kind == "scale" else OPEN
    return added(one, other)


def _sub(made: Made) -> Law:
    one, other = made.laws
    if OPEN in made.laws or "scale" in (one.kind, other.kind):
        return _add(made)
    return added(one, other.times(-1.0))


def _mul(made: Made) -> Law:
    for law, number in zip(made.laws, reversed(made.numbers), strict=True):
        if law.kind == "sum" and law.degrees and number is not None:
            return law.times(number)
    return multiplied(*made.laws)


def _fma(made: Made) -> Law:
    left = replace(made, laws=made.laws[:2], types=made.types[:2], numbers=made.numbers[:2])
    product, summand = _mul(left), made.laws[2]
    match dict(made.op.attributes).get(MINUS):
        case "product":
            return _sub(replace(made, laws=(summand, product)))
        case "summand":
            return _sub(replace(made, laws=(product, summand)))
    return added(product, summand)


def _div(made: Made) -> Law:
    one, other = made.laws
    number = made.numbers[1]
    if one.kind == "sum" and one.degrees and number:
        return one.times(1 / number)
    if other.kind == "sum" and other.degrees:
        raise NotCompensated("something is divided by it")
    return multiplied(one, other.times(-1.0) if other.degrees else STILL)


def _power(base: float) -> Rule:
    def rule(made: Made) -> Law:
        (law,) = made.laws
        if law.kind == "lowest":
            return ZERO
        if law.kind == "scale":
            raise NotCompensated("what was exponentiated is exponentiated again")
        return replace(of("scale", law.times(math.log2(base)).degrees, law.axis), power=True)

    return rule


def _logarithm(base: float) -> Rule:
    def rule(made: Made) -> Law:
        (law,) = made.laws
        if law.kind == "sum" and law.degrees:
            raise NotCompensated("its logarithm is taken")
        return of("sum", law.times(1 / math.log2(base)).degrees, law.axis)

    return rule


def _either(made: Made) -> Law:
    """max and min: scales are positive, so the order stays."""
    return same(*made.laws)


def _select(made: Made) -> Law:
    if not made.laws[0].still:
        return OPEN if made.laws[0] == OPEN else _no("a choice depends on it")
    return same(*made.laws[1:])


def _predicated_update(made: Made) -> Law:
    """The value, or what it becomes under a uniform condition."""
    value, updated, condition = made.laws
    return same(value, updated) if condition.still else _no("a choice depends on it")


def _compare(made: Made) -> Law:
    same(*made.laws)
    return STILL


def _same_as_operand(made: Made) -> Law:
    return made.laws[0] if made.laws[0].kind == "scale" or made.still else _no(f"`{made.op.kind}` of it")


def _neg(made: Made) -> Law:
    (law,) = made.laws
    return law if law.kind == "scale" else law.times(-1.0) if law.degrees else STILL


def _cast(made: Made) -> Law:
    """Scaled values grow by up to 2^8: types that reach as far as f32 hold them, f16 holds powers (at most 2^8 where
    the kernel's own are at most 1)."""
    (law,), element = made.laws, made.result.element
    if made.still:
        return law if element.startswith(("f", "bf")) else STILL
    allowed = WIDE if law.kind == "sum" else (*AS_FAR, "f16") if law.power else AS_FAR
    return law if element in allowed else _no(f"it is converted to {element}")


# -- reductions and products ------------------------------------------------------------------------


def _reduce(made: Made) -> Law:
    (law,), axis, combine = made.laws, _axis(made.op), made.op.attribute("combine")
    if not law.degrees:
        return STILL if combine not in ("add", "max") or law.kind == "lowest" and combine == "add" else law
    if axis == law.axis:
        raise NotCompensated("rows with shifts of their own are reduced to one")
    if combine not in ("max", "min") and not (combine == "add" and law.kind == "scale"):
        raise NotCompensated(f"it is reduced by `{combine}`")
    return replace(law.along(law.axis - (axis < law.axis)), power=False)


def _dot(made: Made) -> Law:
    """Rows of A are rows of the product, columns of B its columns."""
    a, b = made.laws[:2]
    added_to = made.laws[2] if len(made.laws) > 2 else ZERO
    if OPEN in (a, b):
        return OPEN
    for law, retained in ((a, 0), (b, 1)):
        if law.degrees and (law.kind != "scale" or law.axis != retained or len(made.result.shape) != 2):
            raise NotCompensated("it is an operand of a product that mixes rows")
    if a.degrees and b.degrees:
        raise NotCompensated("both operands of a product depend on it")
    product = a if a.degrees else b if b.degrees else STILL
    return replace(same(product, added_to), power=False)


def _axis(op: Op) -> int:
    axis = op.attribute("axis")
    assert isinstance(axis, int)
    return axis


def _no(why: str) -> Law:
    raise NotCompensated(why)


_JOINS = frozenset({"add", "update", "sub", "max", "min", "select", "dot"})
"""Operations that say what an operand must be that is not known yet."""

RULES: Mapping[str, Rule] = {
    "constant": _constant, "splat": _spread, "broadcast": _spread, "expand_dims": _expand, "transpose": _transpose,
    "add": _add, "sub": _sub, "mul": _mul, "fma": _fma, "div": _div, "neg": _neg, "exp2": _power(2.0),
    "exp": _power(math.e), "log2": _logarithm(2.0), "log": _logarithm(math.e), "max": _either, "min": _either,
    "update": _predicated_update, "select": _select, "compare": _compare, "abs": _same_as_operand, "cast": _cast,
    "reduce": _reduce, "dot": _dot,
}  # fmt: skip


def numbers_of(op: Op, operands: Sequence[float | None]) -> float | None:
    """The number that every element of an operation's result is, if that is known."""
    if op.kind == "constant":
        value = op.attribute("value")
        return float(value) if isinstance(value, int | float) else None
    return operands[0] if op.kind in ("splat", "broadcast", "expand_dims") else None
