"""The rewrites of a tile program before its dependence graph is made, in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Literal

from twill.tile.program import TileProgram
from twill.tile.rewrite.loop_fusion import fuse_loops
from twill.tile.rewrite.precision import split_mmas
from twill.tile.rewrite.predicate import predicate_masks
from twill.tile.rewrite.uniform_factors import collect_factors
from twill.tile.rewrite.vector_sides import separate_sides

Rewriting = Literal["none", "masks", "all"]
"""What is done besides `twill.tile.rewrite.precision`. none: nothing. masks: `twill.tile.rewrite.uniform_factors`,
`twill.tile.rewrite.predicate`. all: `twill.tile.rewrite.loop_fusion` before."""
DEFAULT: Rewriting = "all"


def rewrite(program: TileProgram, rewriting: Rewriting = DEFAULT) -> TileProgram:
    """The program rewritten; `original` is the one given, where that changed anything. A strict program, and one whose
    products and sums must not be rounded together, keeps its factors and summands where they are. Raises `NestedLoop`,
    `UnsupportedProduct`."""
    if rewriting != "none":
        fused = fuse_loops(program) if rewriting == "all" else program
        retained = program.strict or not program.fp_fusion
        program = predicate_masks(fused if retained else regrouped(fused))
    return separate_sides(split_mmas(program))


def regrouped(program: TileProgram) -> TileProgram:
    """The program with its factors and summands collected, and the lines where that changed something."""
    made = collect_factors(program)
    before, after = (Counter((op.kind, op.line) for op in one.ops() if op.line) for one in (program, made))
    lines = sorted({line for _, line in ((before - after) + (after - before))})
    return replace(made, regrouped=tuple(lines)) if lines else made
