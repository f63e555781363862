"""What is known of the values of a tile: a number that no element is below."""

from __future__ import annotations

import math

from twill.codegen.lower.tiles import TileLayouts
from twill.tile.flat import UNIFORM
from twill.tile.vocabulary import SLACK

SMALLEST_NORMAL = 2.0**-126  # of f32
_NEVER_NEGATIVE = frozenset({"exp", "exp2", "sqrt", "rsqrt", "abs"})


def at_least(tiles: TileLayouts, cell: int) -> float:
    """A lower bound of every element of a cell that is not NaN; minus infinity if none is known."""
    if cell == UNIFORM:
        return -math.inf
    maker = tiles.wired.wiring.maker.get(tiles.view(cell).base)
    if maker is None:
        return -math.inf
    op, operands = tiles.flat.steps[maker].op, tiles.flat.steps[maker].operands
    if op.kind == "constant":
        value = op.attribute("value")
        return float(value) if isinstance(value, int | float) else -math.inf
    if op.kind in _NEVER_NEGATIVE:
        return 0.0
    if op.kind not in ("add", "max"):
        return -math.inf
    left, right = (at_least(tiles, operand) for operand in operands)
    slack = dict(op.attributes).get(SLACK, 0.0)
    assert isinstance(slack, int | float)
    return left + right if op.kind == "add" else max(left, right - slack)
