"""Values carried from one loop to the next, and the instructions that must therefore share a warp group."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph
from twill.reach import reach

Member = TypeVar("Member", bound=Hashable)
Place = tuple[int, int]
"""A region, and a node of it."""


def carried_links(
    graph: DependenceGraph, main: CostedGraph, other: CostedGraph, slot_of: Sequence[int]
) -> dict[int, int]:
    """Instruction of `other` -> slot of the main loop's instruction whose value it continues or begins.

    Follows carried values through any loops in between, and, where that leads nowhere, through the straight-line code
    that makes what a loop begins with of what another one ended with: it is done in the first warp group that it leads
    to. Values in registers tie, and sums in tensor memory, to which one thread adds in both loops; a value in shared
    memory can be picked up by any warp group.
    """
    main_slots = {(i.source, i.block): slot_of[i.id] for i in main.instructions if i.source >= 0}
    held = {v.producer for v in other.values if v.space in ("register", "tmem")}
    fixed: dict[int, int] = {}
    for tied in (_linked(graph, through=False), _linked(graph, through=True)):
        for i in other.instructions:
            if i.id not in held or i.id in fixed:
                continue
            theirs = [(node, i.block) for r, node in tied.get((other.region, i.source), ()) if r == main.region]
            slots = [main_slots[one] for one in theirs if one in main_slots]
            if slots:
                fixed[i.id] = min(slots)
    return fixed


def linked_loops(graph: DependenceGraph) -> frozenset[tuple[int, int]]:
    """Pairs of different loops of which one goes on with a value that the other one ended with."""
    parts = [{region for region, _ in part} for part in _linked(graph, through=True).values()]
    loops = {region.id for region in graph.regions if region.kind == "loop"}
    return frozenset((one, other) for part in parts for one in part & loops for other in part & loops if one != other)


def _linked(graph: DependenceGraph, through: bool) -> dict[Place, set[Place]]:
    """Nodes of all loops whose carried values are one value, as connected components. through: or begin with what
    straight-line code makes of another one."""
    pairs: list[tuple[Place, Place]] = []
    for region in graph.regions:
        for one in region.carried:
            mine = (region.id, one.producer)
            pairs.append((mine, one.result_of or mine))
            if through and one.result_of is not None:
                pairs += [(mine, place) for place in _ended_with(graph, one.result_of)]
    return {member: part for part in components(pairs) for member in part}


def components(pairs: Iterable[tuple[Member, Member]]) -> list[set[Member]]:
    """What is connected by pairs; a pair of equals is a component of one."""
    part_of: dict[Member, set[Member]] = {}
    for one, other in pairs:
        part = part_of.get(one, {one}) | part_of.get(other, {other})
        part_of.update(dict.fromkeys(part, part))
    return [*{id(part): part for part in part_of.values()}.values()]


def _ended_with(graph: DependenceGraph, place: Place) -> set[Place]:
    """The nodes of loops whose last values a straight-line node works on, itself or what it reads."""
    regions = {region.id: region for region in graph.regions}

    def before(place: Place) -> list[Place]:
        region, node = place
        if regions[region].kind == "loop":
            return []
        made = [(region, edge.src) for edge in regions[region].edges if edge.dst == node and edge.kind == "value"]
        return made + [
            one.made_by for one in regions[region].inputs if any(reader == node for reader, _ in one.readers)
        ]

    return {one for one in reach([place], before) if regions[one[0]].kind == "loop"}
