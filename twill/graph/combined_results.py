"""MMAs whose results are combined behind their loop, such as the two accumulators of a gated layer.

An instruction reads registers of its own warp group only. Results of other groups would go through shared memory as
whole f32 tiles, for which rings leave no room; so one warp group issues all MMAs whose results are combined. The same
holds within a loop where one MMA adds to the result of another in the same iteration, directly or after elementwise
work (the MMAs that `twill.tile.rewrite.precision` makes of one).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twill.graph.dependence import DependenceGraph, Node, Region
from twill.machine.description import Machine
from twill.reach import reach


def combined_results(graph: DependenceGraph, region: Region, machine: Machine) -> dict[int, str]:
    """A tag for each MMA of a loop that meets others, the same for those that meet; none on a machine whose
    accumulators are in no registers."""
    mmas = {node.id for node in region.nodes if node.mma is not None}
    if machine.mma is None or machine.mma.accumulator != "register" or region.kind != "loop" or len(mmas) < 2:
        return {}
    groups: list[set[int]] = []
    for reached in (*_chains(region), *_readings(graph, region)):
        touched = [group for group in groups if group & reached]
        together = (reached & mmas).union(*touched)
        groups = [*(group for group in groups if group not in touched), *([together] if together else [])]
    return {mma: f"meets product {min(group)}" for group in groups if len(group) > 1 for mma in group}


def tag_of(tags: Mapping[int, str], mma: int, block: int) -> str:
    """The tag of a row block's part; "" for what meets nothing."""
    return f"{tags[mma]}, block {block}" if mma in tags else ""


def _chains(region: Region) -> Iterable[set[int]]:
    """For each MMA: itself, and the MMAs that what it adds to was made by in the same iteration."""
    nodes = {node.id: node for node in region.nodes}
    made_of = [edge for edge in region.edges if edge.kind == "value" and not edge.distance]

    def before(node: int) -> list[int]:
        if nodes[node].kind != "elementwise":
            return []
        return [edge.src for edge in made_of if edge.dst == node and _same_tile(nodes, edge.src, node)]

    for mma in (node.id for node in region.nodes if node.mma is not None):
        yield {mma} | reach((edge.src for edge in made_of if edge.dst == mma and edge.operand == "c"), before)


def _same_tile(nodes: Mapping[int, Node], made: int, of: int) -> bool:
    """Whether both nodes make matrices of one shape, in f32."""
    left, right = nodes[made].result, nodes[of].result
    return left is not None and right is not None and (left.shape, left.dtype) == (right.shape, right.dtype)


def _readings(graph: DependenceGraph, region: Region) -> Iterable[set[int]]:
    """For each instruction of straight-line code behind a loop: which nodes of the loop reach it."""
    reached: dict[tuple[int, int], set[int]] = {}  # by region and node
    for later in graph.regions:
        if later.id <= region.id or later.kind == "loop":
            continue
        reaching: dict[int, set[int]] = {node.id: set() for node in later.nodes}
        for entry in later.inputs:
            come = {entry.made_by[1]} if entry.made_by[0] == region.id else reached.get(entry.made_by, set())
            for reader, _ in entry.readers:
                reaching[reader] |= come
        for node in later.nodes:  # in program order
            for edge in later.edges:
                if edge.dst == node.id and edge.kind == "value" and not edge.distance:
                    reaching[node.id] |= reaching[edge.src]
            reached[later.id, node.id] = reaching[node.id]
            yield reaching[node.id]
