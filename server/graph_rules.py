"""What a dependence graph from outside must hold to before it is worth a solve.

A graph that `twill extract` made always does. These rules only keep nonsense from becoming a job:
every name refers to something, every number is within reason, and the machine has a price for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twill.exc import BadSubmission, UnpricedOperation
from twill.graph.dependence import DependenceGraph, Node, Region, Tile
from twill.graph.price import price_node
from twill.machine.description import Machine

MOST = 2**40  # bytes or elements of one tile; far beyond any memory
MOST_DISTANCE = 2**16  # iterations between a value and its reader
EXTRACT = "the document that `twill extract FILE --json` prints"


def check_graph(graph: DependenceGraph, machine: Machine) -> None:
    """Raise BadSubmission or UnpricedOperation at the first thing that is wrong with a graph."""
    unique("dimensions", [dim.id for dim in graph.dims])
    unique("dimensions", [dim.name for dim in graph.dims])
    unique("regions", [region.id for region in graph.regions])
    for dim in graph.dims:
        within(f"the size of dimension {dim.name!r}", dim.size, 1, MOST)
    known = frozenset(dim.id for dim in graph.dims)
    made: set[tuple[int, int]] = set()  # (region, node), of this region and those before it
    for region in graph.regions:
        unique(f"nodes of region {region.id}", [node.id for node in region.nodes])
        made |= {(region.id, node.id) for node in region.nodes}
        check_region(region, made)
        for node in region.nodes:
            check_node(node, region, known)
            check_price(node, graph, machine)


def check_region(region: Region, made: set[tuple[int, int]]) -> None:
    """Edges, carried values and inputs refer to what is there."""
    here = {node.id for node in region.nodes}
    for edge in region.edges:
        for end in (edge.src, edge.dst):
            if end not in here:
                raise wrong(f"an edge of region {region.id} is of node {end}, which the region does not have")
        within(f"the distance of the edge from node {edge.src} to {edge.dst}", edge.distance, 0, MOST_DISTANCE)
    for carried in region.carried:
        if carried.producer not in here:
            raise wrong(f"{carried.name!r} is carried from node {carried.producer}, which region {region.id} has not")
        if carried.result_of is not None and carried.result_of not in made:
            raise wrong(f"{carried.name!r} begins as the result of {carried.result_of}, which does not exist")
    for entry in region.inputs:
        if entry.made_by not in made:
            raise wrong(f"the input {entry.name!r} is made by {entry.made_by}, which does not exist")
        for reader, _ in entry.readers:
            if reader not in here:
                raise wrong(f"the input {entry.name!r} is read by node {reader}, which region {region.id} has not")


def check_node(node: Node, region: Region, known: frozenset[int]) -> None:
    """A node is of one piece: what its kind needs is there, its numbers are within reason."""
    name = f"node {node.id} of region {region.id}"
    if node.kind == "mma" and (node.mma is None or node.result is None):
        raise wrong(f"{name} is a product without `mma` and `result`")
    if node.kind != "mma" and node.mma is not None:
        raise wrong(f"{name} has `mma`, and is of kind {node.kind!r}")
    if node.kind in ("load", "store", "reduce_store") and node.transport is None:
        raise wrong(f"{name} moves a tile without saying by which `transport`")
    if node.kind == "load" and node.result is None:
        raise wrong(f"{name} is a load without a `result`")
    within(f"`bytes` of {name}", node.bytes, 0, MOST)
    for count in node.counts:
        within(f"`elements` of {count.operation!r} of {name}", count.elements, 0, MOST)
    for dim in dims_of(node):
        if dim not in known:
            raise wrong(f"{name} is over dimension {dim}, which the graph does not have")
    if node.mma is not None:
        for extent in (node.mma.m, node.mma.n, node.mma.k):
            within(f"an extent of {name}", extent, 1, MOST)
        within(f"the work of {name}", node.mma.m * node.mma.n * node.mma.k, 1, MOST)
    if node.result is not None:
        check_tile(node.result, name)


def check_tile(tile: Tile, name: str) -> None:
    """As many dimensions as axes, and not too large."""
    if len(tile.shape) != len(tile.dims):
        raise wrong(f"the result of {name} has {len(tile.shape)} extents and {len(tile.dims)} dimensions")
    elements = 1
    for extent in tile.shape:
        within(f"an extent of the result of {name}", extent, 1, MOST)
        elements *= extent
    within(f"the size of the result of {name}", elements, 1, MOST)


def dims_of(node: Node) -> Iterator[int]:
    """Every dimension that a node names; -1 stands for none."""
    yield from node.dims
    if node.result is not None:
        yield from (dim for dim in node.result.dims if dim != -1)
    if node.mma is not None:
        yield from (dim for dim in (node.mma.m_dim, node.mma.n_dim, node.mma.k_dim) if dim != -1)


def check_price(node: Node, graph: DependenceGraph, machine: Machine) -> None:
    """The machine knows what the node does."""
    try:
        price_node(node, machine, parts=1)
    except KeyError as missing:
        raise UnpricedOperation(
            f"machine {machine.name} has no price for {missing.args[0]!r}, which {node.name or node.kind} needs",
            file=graph.file,
            line=node.line,
            hint=f"an entry for {missing.args[0]!r} in the machine file (docs/machine-files.md)",
        ) from None


def unique(what: str, names: Iterable[int | str]) -> None:
    """Refuse one that appears twice."""
    seen: set[int | str] = set()
    for name in names:
        if name in seen:
            raise wrong(f"{name!r} appears twice among the {what}")
        seen.add(name)


def within(what: str, number: int, least: int, most: int) -> None:
    """Refuse a number beyond reason."""
    if not least <= number <= most:
        raise wrong(f"{what} is {number}, not from {least} to {most}")


def wrong(what: str) -> BadSubmission:
    """The error of a graph that contradicts itself."""
    return BadSubmission(f"the graph contradicts itself: {what}", hint=EXTRACT)
