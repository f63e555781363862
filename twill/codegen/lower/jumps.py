"""Whether the last place of a number decides more than the last place of what is stored.

A number that is rounded to a whole one, or compared with a bound, becomes another one at once: `(x / y).to(tl.int8)` is
127 where the quotient is 127, and 126 where it is one unit in the last place less. Such numbers are computed as they
are written, whatever is as exact otherwise.
"""

from __future__ import annotations

from twill.codegen.lower.tiles import TileLayouts
from twill.graph.work import BITS
from twill.tile.flat import UNIFORM, Step
from twill.tile.vocabulary import ELEMENTWISE, VIEWS

WHOLE = ("floor", "ceil", "trunc", "rint", "round", "compare", "bitcast")


def meets_jump(tiles: TileLayouts, cell: int) -> bool:
    """Whether a cell, or what is computed from it element by element, is read so."""
    pending, seen = [tiles.view(cell).base], set[int]()
    while pending:
        base = pending.pop()
        if base in seen:
            continue
        seen.add(base)
        for step in tiles.flat.steps:
            if step.op.kind in VIEWS or not any(o != UNIFORM and tiles.view(o).base == base for o in step.operands):
                continue
            if jumps(tiles, step):
                return True
            if step.op.kind in ELEMENTWISE:
                pending += (tiles.view(result).base for result in step.results)
    return False


def jumps(tiles: TileLayouts, step: Step) -> bool:
    """Whether a step's result is another number by more than the last place of an operand."""
    into = tiles.flat.cells[step.results[0]].type.element if step.results else ""
    return step.op.kind in WHOLE or (step.op.kind == "cast" and into.startswith("i") and into in BITS)
