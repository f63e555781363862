"""Bounds of a tile as a scalar condition: whether it has an element within them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twill.tile.access.analysis import Numbering
from twill.tile.access.value import IndexBound
from twill.tile.affine import Polynomial
from twill.tile.program import Op, TileType
from twill.tile.written import written

I1, I32 = TileType((), "i1"), TileType((), "i32")


def some_within(
    numbering: Numbering, op: Op, bounds: Iterable[IndexBound], shape: tuple[int, ...]
) -> tuple[list[Op], int]:
    """The operations that say whether a tile of this shape has an element within the bounds, at most one for each axis,
    and their result. op: whose line and name they have."""
    made: list[Op] = []

    def write(kind: str, operands: tuple[int, ...], attributes: Mapping[str, int | str], result: TileType = I32) -> int:
        value = numbering.value(result, op)
        made.append(numbering.op(kind, operands, value, op, **attributes))
        return value

    conditions: list[int] = []
    for bound in sorted(bounds, key=repr):
        first = bound.limit if bound.side == "upper" else Polynomial.constant_of(shape[bound.axis]) - bound.limit
        sides = (written(first, write), write("constant", (), {"value": 0}))
        conditions.append(write("compare", sides, {"predicate": "gt", "signed": 1}, I1))
    every = conditions[0]
    for condition in conditions[1:]:
        every = write("and", (every, condition), {}, I1)
    return made, every
