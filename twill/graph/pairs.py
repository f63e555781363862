"""Products of two CTAs: what each of them loads, and which loops may have them.

Neighbouring program instances that multiply by one B are the rows of one product of twice the rows. Each CTA loads its
own rows of A and half of B, which takes half the room; its tensor core reads half of B from its own shared memory.
Whether neighbours do multiply by one B is known when the kernel is lowered (`twill.codegen.lower.pairs`).
"""

from __future__ import annotations

from twill.graph.dependence import Edge, Node, Region
from twill.machine.description import Machine

CTAS = 2


def may_pair(region: Region, machine: Machine) -> bool:
    """Whether two CTAs could make a loop's products: of loaded tiles, into sums that nothing else reads in the loop."""
    mmas = {node.id for node in region.nodes if node.mma is not None}
    if machine.mma is None or machine.mma.pair is None or not mmas:
        return False
    nodes = {node.id: node for node in region.nodes}
    values = [edge for edge in region.edges if edge.kind == "value"]
    summed = all(edge.dst in mmas and edge.operand == "c" for edge in values if edge.src in mmas)
    loaded = all(nodes[edge.src].kind == "load" for edge in values if edge.dst in mmas and edge.operand in ("a", "b"))
    whole = {edge.src for edge in values if edge.operand != "b"}
    return summed and loaded and whole.isdisjoint(_halves(region, values))


def halved(region: Region) -> Region:
    """The loop with half the columns of every loaded B."""
    halves = _halves(region, [edge for edge in region.edges if edge.kind == "value"])
    nodes = tuple(_half(node, halves[node.id]) if node.id in halves else node for node in region.nodes)
    return region.model_copy(update={"nodes": nodes})


def _halves(region: Region, values: list[Edge]) -> dict[int, int]:
    """Loads of operand B, each with the dimension of the result that it has."""
    nodes = {node.id: node for node in region.nodes}
    found = {}
    for edge in values:
        mma = nodes[edge.dst].mma
        if mma is not None and edge.operand == "b" and nodes[edge.src].kind == "load":
            found[edge.src] = mma.n_dim
    return found


def _half(node: Node, dim: int) -> Node:
    assert node.result is not None
    axes = zip(node.result.shape, node.result.dims, strict=True)
    shape = tuple(extent // CTAS if own == dim else extent for extent, own in axes)
    tile = node.result.model_copy(update={"shape": shape})
    return node.model_copy(update={"result": tile, "bytes": node.bytes // CTAS})
