"""Bounds of a tile as a scalar condition: whether it has an element within them."""

from __future__ import annotations

from collections.abc import Iterable

from twill.tile.access.analysis import Numbering
from twill.tile.access.value import IndexBound
from twill.tile.affine import Polynomial
from twill.tile.program import Op, TileType

I1, I32 = TileType((), "i1"), TileType((), "i32")


def some_within(
    numbering: Numbering, op: Op, bounds: Iterable[IndexBound], shape: tuple[int, ...]
) -> tuple[list[Op], int]:
    """The operations that say whether a tile of this shape has an element within the bounds, at most one for each axis,
    and their result. op: whose line and name they have."""
    made: list[Op] = []
    conditions: list[int] = []
    for bound in sorted(bounds, key=repr):
        first = bound.limit if bound.side == "upper" else Polynomial.constant_of(shape[bound.axis]) - bound.limit
        number, zero = written(numbering, op, first, made), written(numbering, op, Polynomial(), made)
        conditions.append(numbering.value(I1, op))
        made.append(numbering.op("compare", (number, zero), conditions[-1], op, predicate="gt", signed=1))
    while len(conditions) > 1:
        both = numbering.value(I1, op)
        made.append(numbering.op("and", (conditions.pop(), conditions.pop()), both, op))
        conditions.append(both)
    return made, conditions[0]


def written(numbering: Numbering, op: Op, polynomial: Polynomial, made: list[Op]) -> int:
    """The value of a polynomial over i32 scalars. made: gets the operations that make it."""

    def write(kind: str, operands: tuple[int, ...], **attributes: int) -> int:
        value = numbering.value(I32, op)
        made.append(numbering.op(kind, operands, value, op, **attributes))
        return value

    total: int | None = None
    for monomial, coefficient in polynomial.terms:
        factors = [symbol for symbol, power in monomial for _ in range(power)]
        if coefficient != 1 or not factors:
            factors.insert(0, write("constant", (), value=coefficient))
        term = factors[0]
        for factor in factors[1:]:
            term = write("mul", (term, factor))
        total = term if total is None else write("add", (total, term))
    return write("constant", (), value=0) if total is None else total
