"""Whether an exponential may be zero where it is below 2^-126.

Triton's `tl.exp` of f32 is a multiplication by log2(e) and `ex2.approx.f32`, which keeps subnormal results;
`ex2.approx.ftz.f32`, its `tl.exp2`, makes them zero and takes fewer instructions. The latter will do where nobody can
tell them apart, or where the exponentials are only added up, as those of a softmax are.
"""

from __future__ import annotations

from enum import IntEnum

from twill.codegen.lower.ranges import at_least
from twill.codegen.lower.tiles import TileLayouts
from twill.tile.flat import UNIFORM, Step
from twill.tile.vocabulary import VIEWS

ABSORBING = 2.0**-100  # adding less than 2^-126 to it changes nothing: half a unit of it is 2^-124
COARSE = ("f16", "f8e4m3", "f8e5m2")  # types whose least number is far above 2^-126


class Flush(IntEnum):
    """What becomes of a result that is zero instead of less than 2^-126. UNSEEN: nothing that is stored is another
    number. SUMMED: a sum of rows or a product of tiles is off by less than 2^-126 for each. SEEN: anything else."""

    UNSEEN = 0
    SUMMED = 1
    SEEN = 2


def flush(tiles: TileLayouts, cell: int) -> Flush:
    """Of all that read the cell."""
    base = tiles.view(cell).base
    for carry in tiles.flat.carries:
        ends = [end for end in (carry.init, carry.yielded) if end != UNIFORM]
        if any(tiles.view(end).base == base for end in ends):
            return Flush.SEEN
    found = Flush.UNSEEN
    for step in tiles.flat.steps:
        for position, operand in enumerate(step.operands):
            if operand != UNIFORM and step.op.kind not in VIEWS and tiles.view(operand).base == base:
                found = max(found, _read(tiles, step, position))
        if step.op.kind in ("slice", "join", "update") and any(tiles.view(o).base == base for o in step.cells()):
            return Flush.SEEN
    return found


def _read(tiles: TileLayouts, step: Step, position: int) -> Flush:
    """By operand `position` of one step."""
    element = tiles.flat.cells[step.results[0]].type.element if step.results else ""
    match step.op.kind:
        case "add" if element == "f32" and at_least(tiles, step.operands[1 - position]) >= ABSORBING:
            return Flush.UNSEEN
        case "cast" if element in COARSE:
            return Flush.UNSEEN
        case "cast" if element == "bf16":  # which has the exponents of f32
            return flush(tiles, step.results[0])
        case "select" if position:
            return flush(tiles, step.results[0])
        case "dot" if position < 2:
            return Flush.SUMMED
        case "reduce" if step.op.attribute("combine") == "add":
            return Flush.SUMMED
    return Flush.SEEN
