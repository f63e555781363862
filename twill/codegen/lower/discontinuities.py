"""Values that a discontinuous operation reads: a conversion to an integer, a rounding to a whole number, a comparison.

An error of one unit in the last place may change its result altogether: `(x / y).to(tl.int8)` is 127 where the quotient
is 127, and 126 where it is one unit in the last place less. Such values are computed as the kernel says, not by a
sequence of operations that is about as exact.
"""

from __future__ import annotations

from twill.codegen.lower.tiles import TileLayouts
from twill.graph.work import BITS
from twill.tile.flat import UNIFORM, Step
from twill.tile.vocabulary import ELEMENTWISE, VIEWS

DISCONTINUOUS = ("floor", "ceil", "trunc", "rint", "round", "compare", "bitcast")


def reaches_discontinuity(tiles: TileLayouts, cell: int) -> bool:
    """Whether a discontinuous operation reads a cell, or what is computed from it element by element."""
    pending, seen = [tiles.view(cell).base], set[int]()
    while pending:
        base = pending.pop()
        if base in seen:
            continue
        seen.add(base)
        for step in tiles.flat.steps:
            if step.op.kind in VIEWS or not any(o != UNIFORM and tiles.view(o).base == base for o in step.operands):
                continue
            if is_discontinuous(tiles, step):
                return True
            if step.op.kind in ELEMENTWISE:
                pending += (tiles.view(result).base for result in step.results)
    return False


def is_discontinuous(tiles: TileLayouts, step: Step) -> bool:
    """Whether a small error of an operand may change the step's result by much."""
    into = tiles.flat.cells[step.results[0]].type.element if step.results else ""
    return step.op.kind in DISCONTINUOUS or (step.op.kind == "cast" and into.startswith("i") and into in BITS)
