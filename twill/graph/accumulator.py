"""Accumulators: results that MMAs update in place, and that a loop carries along or one statement adds up.

The chain runs from an MMA into operand "c" of the next one, directly or through an elementwise
node that rescales it. `twill.graph.inplace` orders its readers; here its nodes are found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from twill.graph.dependence import Edge, Node, Region


def accumulators(region: Region) -> list[list[int]]:
    """Nodes whose results are one accumulator, for each accumulator: one that is carried from iteration to iteration,
    or the sum of the MMAs that one statement became (`twill.tile.rewrite.precision`), whose parts nothing else
    reads."""
    nodes = {node.id: node for node in region.nodes}
    added = _added(region, nodes)
    handed = [e for e in region.edges if _hands_on(nodes, added, e)]
    group: dict[int, set[int]] = {}
    for e in handed:
        merged = group.get(e.src, {e.src}) | group.get(e.dst, {e.dst})
        for n in merged:
            group[n] = merged
    carried = {e.src for e in handed if e.distance}
    found = {min(group[n]): sorted(group[n]) for n in carried}
    apart = (sorted(group[n]) for n in group if group[n].isdisjoint(carried))
    found |= {nodes[0]: nodes for nodes in apart if is_one_sum(region, nodes)}
    return [found[first] for first in sorted(found)]


def is_one_sum(region: Region, nodes: Sequence[int]) -> bool:
    """Whether nodes of one iteration, each of which hands an accumulator on, are of one statement, and all but the last
    are read by the next one alone."""
    lines = {node.line for node in region.nodes if node.id in nodes}
    readers: dict[int, list[Edge]] = {n: [] for n in nodes}
    for e in region.edges:
        if e.kind == "value" and e.src in readers:
            readers[e.src].append(e)
    straight = all({e.dst for e in readers[n]} == {after} for n, after in pairwise(nodes))
    return len(lines) == 1 and straight and not any(e.distance for n in nodes for e in readers[n])


def one_sums(region: Region) -> list[list[int]]:
    """The accumulators that are sums of one iteration, whose memory is another's behind their last reader."""
    return [nodes for nodes in accumulators(region) if is_one_sum(region, nodes)]


def overwriting(region: Region) -> tuple[Edge, ...]:
    """The anti edges of such sums: whoever reads one is done before the next iteration begins it anew."""
    carried = {e.src for e in region.edges if e.kind == "value" and e.distance}
    sums = [nodes for nodes in accumulators(region) if carried.isdisjoint(nodes)]
    return tuple(
        dict.fromkeys(
            Edge(src=e.dst, dst=nodes[0], distance=1, kind="anti")
            for nodes in sums
            for e in region.edges
            if e.kind == "value" and e.src == nodes[-1]
        )
    )


def _added(region: Region, nodes: Mapping[int, Node]) -> frozenset[int]:
    """The nodes whose results MMAs add to."""
    into = (e for e in region.edges if e.kind == "value" and e.operand == "c")
    return frozenset(e.src for e in into if nodes[e.dst].kind == "mma")


def _hands_on(nodes: Mapping[int, Node], added: frozenset[int], edge: Edge) -> bool:
    """Whether a value edge hands an accumulator on to be overwritten: into operand "c" of an MMA, or from an MMA into
    the elementwise node that feeds that operand. added: the nodes whose results MMAs add to."""
    src, dst = nodes[edge.src], nodes[edge.dst]
    if edge.kind != "value" or src.result is None or dst.result is None:
        return False
    if dst.kind == "mma":
        return edge.operand == "c"
    if src.kind != "mma" or (src.result.shape, src.result.dtype) != (dst.result.shape, dst.result.dtype):
        return False
    return dst.id in added
