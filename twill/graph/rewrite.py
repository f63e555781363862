"""What becomes of a tile program before it is a graph: the same computation, in loops that pipeline better."""

from __future__ import annotations

from typing import Literal

from twill.graph.join import join_loops
from twill.graph.linear import collect_factors
from twill.graph.predicate import predicate_masks
from twill.graph.program import TileProgram

Rewriting = Literal["none", "masks", "all"]
"""none: as the kernel has it. masks: `twill.graph.linear`, `twill.graph.predicate`. all: `twill.graph.join` before."""
DEFAULT: Rewriting = "all"


def rewrite(program: TileProgram, rewriting: Rewriting = DEFAULT) -> TileProgram:
    """The program rewritten; `original` is the one given, where that changed anything. Raises `NestedLoop`."""
    if rewriting == "none":
        return program
    return predicate_masks(collect_factors(join_loops(program) if rewriting == "all" else program))
