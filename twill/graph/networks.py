"""Dependence graphs as networkx graphs: to be searched, drawn, and handed to other programs.

A node is called `r1%3` (node 3 of region 1), as `twill extract` prints it. Attributes are numbers and texts only, so
that every format of networkx can write them.

Importing networkx takes as long as reading a kernel, so this module is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import networkx as nx

from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph, Node, Region, Tile

FORMATS: Mapping[str, Callable[[DependenceGraph], str]]
"""What `twill extract --format` can write."""

MOST = 1000  # recurrences that are listed: a graph may have exponentially many


def to_networkx(graph: DependenceGraph) -> nx.MultiDiGraph:
    """All regions in one graph.

    Edges have `kind`, `operand` and `distance` (in iterations). Those between regions have the kind "input" (a tile
    that is made before the region) or "initial" (what a carried value begins with).
    """
    made = nx.MultiDiGraph(kernel=graph.kernel, spec=graph.spec, file=graph.file)
    dims = {dim.id: dim.name for dim in graph.dims}
    for region in graph.regions:
        made.add_nodes_from((name(region.id, node.id), attributes(region, node, dims)) for node in region.nodes)
    for region in graph.regions:
        for edge in region.edges:
            ends = name(region.id, edge.src), name(region.id, edge.dst)
            made.add_edge(*ends, kind=edge.kind, operand=edge.operand, distance=edge.distance)
        for read in region.inputs:
            for reader, operand in read.readers:
                made.add_edge(name(*read.made_by), name(region.id, reader), kind="input", operand=operand, distance=0)
        for carried in region.carried:
            if carried.result_of is not None:
                ends = name(*carried.result_of), name(region.id, carried.producer)
                made.add_edge(*ends, kind="initial", operand=carried.name, distance=0)
    return made


def recurrences(graph: DependenceGraph) -> list[tuple[tuple[str, ...], int]]:
    """Chains that feed themselves, the first MOST of them: their nodes in order, and after how many iterations.

    Of two edges between the same nodes the one of fewer iterations counts.
    """
    found = to_networkx(graph)
    simple = nx.DiGraph()
    for src, dst, distance in found.edges(data="distance"):
        known = simple.get_edge_data(src, dst, {"distance": distance})
        simple.add_edge(src, dst, distance=min(distance, known["distance"]))
    cycles = islice(nx.simple_cycles(simple), MOST)
    return [(tuple(c), sum(simple.edges[e]["distance"] for e in zip(c, c[1:] + c[:1], strict=True))) for c in cycles]


def ranks(graph: CostedGraph) -> list[list[int]]:
    """Ids of instructions by rank: each stands behind all that it waits for within an iteration.

    Instructions that wait for one another within an iteration (by delays of 0 or less) have one rank.
    """
    within = nx.DiGraph((edge.src, edge.dst) for edge in graph.edges if not edge.distance)
    within.add_nodes_from(i.id for i in graph.instructions)
    whole = nx.condensation(within)
    members = whole.nodes(data="members")
    return [sorted(v for one in rank for v in members[one]) for rank in nx.topological_generations(whole)]


# -- formats


def name(region: int, node: int) -> str:
    """What a node is called."""
    return f"r{region}%{node}"


def attributes(region: Region, node: Node, dims: Mapping[int, str]) -> dict[str, str | int]:
    """What is known of a node, as numbers and texts."""
    found: dict[str, str | int] = {
        "name": node.name, "line": node.line, "kind": node.kind, "op": node.op_text,
        "dims": " ".join(dims.get(d, "1") for d in node.dims), "region": region.id, "region_kind": region.kind,
    }  # fmt: skip
    found |= {"result": tile_text(node.result)} if node.result else {}
    found |= {"tensor": node.tensor, "bytes": node.bytes} if node.tensor else {}
    return found | ({"trip": region.trip.text} if region.trip else {})


def tile_text(tile: Tile) -> str:
    """`128x64 bf16`."""
    return f"{'x'.join(map(str, tile.shape))} {tile.dtype}"


def dot(graph: DependenceGraph) -> str:
    """For Graphviz: a box for each region, iterations at the edges that cross them."""
    found = to_networkx(graph)
    lines = [f"digraph {quoted(graph.kernel)} {{", "  node [shape=box];"]
    for region in graph.regions:
        title = f"{region.kind}, line {region.line}" + (f", trip {region.trip.text}" if region.trip else "")
        lines += [f"  subgraph cluster_{region.id} {{", f"    label={quoted(title)};"]
        for node in region.nodes:
            words = [f"{node.name or node.op_text} (line {node.line})", node.op_text]
            words += [tile_text(node.result)] if node.result else []
            lines.append(f"    {quoted(name(region.id, node.id))} [label={quoted(chr(10).join(words))}];")
        lines.append("  }")
    lines += [f"  {quoted(src)} -> {quoted(dst)}{arrow(data)};" for src, dst, data in found.edges(data=True)]
    return "\n".join([*lines, "}", ""])


def arrow(data: Mapping[str, Any]) -> str:
    """How an edge is drawn."""
    words = [f"label={quoted('-' + str(data['distance']))}, constraint=false"] if data["distance"] else []
    words += ["style=dashed"] if data["kind"] != "value" else []
    return f" [{', '.join(words)}]" if words else ""


def quoted(words: str) -> str:
    """A text of Graphviz."""
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def graphml(graph: DependenceGraph) -> str:
    """For yEd, Gephi, Cytoscape and networkx itself."""
    return "\n".join([*nx.generate_graphml(to_networkx(graph)), ""])


FORMATS = {"json": lambda graph: graph.canonical() + "\n", "dot": dot, "graphml": graphml}
