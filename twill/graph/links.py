"""Values carried from one loop to the next, and the instructions that must therefore share a warp group."""

from __future__ import annotations

from collections.abc import Sequence

from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph


def carried_links(
    graph: DependenceGraph, main: CostedGraph, other: CostedGraph, slot_of: Sequence[int]
) -> dict[int, int]:
    """Instruction of `other` -> slot of the main loop's instruction whose value it continues or begins.

    Follows carried values through any loops in between. Only values in registers tie; a value in
    shared or tensor memory can be picked up by any warp group.
    """
    main_slots = {(i.source, i.block): slot_of[i.id] for i in main.instructions if i.source >= 0}
    in_registers = {v.producer for v in other.values if v.space == "register"}
    tied = _linked(graph)
    fixed: dict[int, int] = {}
    for i in other.instructions:
        if i.id not in in_registers:
            continue
        for region, node in tied.get((other.region, i.source), ()):
            if region == main.region and (node, i.block) in main_slots:
                fixed[i.id] = main_slots[node, i.block]
    return fixed


def _linked(graph: DependenceGraph) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """Nodes of all loops whose carried values are one value, as connected components."""
    from twill.graph.networks import components

    carried = ((region.id, one) for region in graph.regions for one in region.carried)
    mine = (((region, one.producer), one.result_of or (region, one.producer)) for region, one in carried)
    return {member: part for part in components(mine) for member in part}
