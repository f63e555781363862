"""MMAs that are contracted over the split dimension, in parts of their columns: each warp group computes a share.

An MMA that is contracted over the dimension that is split reads every row block (dQ of attention backward, of which
the keys are split). One warp group that makes all of it has the longest chain of all, and the others wait for it in
every iteration (docs/performance-log.md). So each makes some of its columns, with what follows from them: elementwise
operations, stores, reductions into memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from twill.graph.dependence import DependenceGraph, Mma, Node, Region
from twill.graph.price import BYTES

FEWEST = 2  # row blocks that have something between them
PANEL = 128  # bytes of a row of operand B in shared memory, which one part of it begins at: the widest swizzle


def by_columns(graph: DependenceGraph, region: Region, dim: int, parts: int) -> Mapping[int, int]:
    """For each node of a region that is made in `parts` parts of its columns where dimension `dim` is split: the
    dimension that is cut. Empty if there is none."""
    found: dict[int, int] = {}
    for node in region.nodes:
        if node.mma is not None and node.mma.k_dim == dim >= 0 and parts > 1:
            nodes = _cut_with(graph, region, node, node.mma, parts)
            if not nodes & found.keys():
                found |= dict.fromkeys(nodes, node.mma.n_dim)
    return found


def may_share(graph: DependenceGraph) -> bool:
    """Whether something joins row blocks of a graph that can be made in parts of its columns."""
    return any(by_columns(graph, region, dim.id, FEWEST) for region in graph.regions for dim in graph.dims)


def narrowed(node: Node, cut: int | None, parts: int) -> Node:
    """The node as one of `parts` parts along dimension `cut`; as it is for None."""
    if cut is None or node.result is None:
        return node
    extents = zip(node.result.shape, node.result.dims, strict=True)
    shape = tuple(extent // parts if dim == cut else extent for extent, dim in extents)
    mma = node.mma and node.mma.model_copy(update={"n": node.mma.n // parts})
    return node.model_copy(update={"result": node.result.model_copy(update={"shape": shape}), "mma": mma})


def _cut_with(graph: DependenceGraph, region: Region, product: Node, mma: Mma, parts: int) -> set[int]:
    """The MMA and what follows from it, if all of that can be cut; else nothing."""
    width, odd = divmod(mma.n, parts)
    if odd or width * BYTES.get(mma.dtype, 4) % PANEL or mma.n_dim < 0:
        return set()
    nodes = {node.id: node for node in region.nodes}
    reached, frontier = {product.id}, [product.id]
    while frontier:
        source = frontier.pop()
        for edge in region.edges:
            if edge.src != source or edge.kind != "value":
                continue
            if edge.distance or not _can_be_cut(nodes[edge.dst], mma.n_dim):
                return set()
            if edge.dst not in reached:
                reached.add(edge.dst)
                frontier.append(edge.dst)
    inside = all(
        edge.src in reached or edge.dst == product.id
        for edge in region.edges
        if edge.kind == "value" and edge.dst in reached
    )
    addend = any(edge.dst == product.id and edge.operand == "c" for edge in region.edges)
    inputs = [entry for later in graph.regions for entry in later.inputs]
    outside = any(entry.made_by == (region.id, node) for entry in inputs for node in reached)
    fed = any(
        reader in reached and (reader != product.id or operand == "c")
        for entry in region.inputs
        for reader, operand in entry.readers
    )
    return reached if inside and not addend and not outside and not fed else set()


def _can_be_cut(node: Node, dim: int) -> bool:
    """Whether a node works on each column for itself."""
    if node.kind in ("store", "reduce_store"):
        return node.transport == "tma"
    return node.kind == "elementwise" and node.result is not None and node.dims == node.result.dims and dim in node.dims
