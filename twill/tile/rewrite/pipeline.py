"""What becomes of a tile program before it is a graph: the same computation, in loops that pipeline better."""

from __future__ import annotations

from typing import Literal

from twill.tile.program import TileProgram
from twill.tile.rewrite.loop_fusion import join_loops
from twill.tile.rewrite.predicate import predicate_masks
from twill.tile.rewrite.uniform_factors import collect_factors

Rewriting = Literal["none", "masks", "all"]
"""none: as the kernel has it. masks: `twill.tile.rewrite.uniform_factors`, `twill.tile.rewrite.predicate`. all:
`twill.tile.rewrite.loop_fusion` before."""
DEFAULT: Rewriting = "all"


def rewrite(program: TileProgram, rewriting: Rewriting = DEFAULT) -> TileProgram:
    """The program rewritten; `original` is the one given, where that changed anything. Raises `NestedLoop`."""
    if rewriting == "none":
        return program
    return predicate_masks(collect_factors(join_loops(program) if rewriting == "all" else program))
