"""The order of an iteration in which row blocks exchange tiles.

An MMA that is contracted over the dimension that is split (dQ of attention backward) waits for tiles of all row
blocks. If it is the first MMA behind the exchange in every row block, all of them begin it in the same cycle; they do
everything in step from then on, and the tensor core idles while all of them compute. So the first row block issues it
first, and every other one behind an MMA of its own. All MMAs of a row block behind the exchange are issued one after
the other, so that none is waited for before the last one is issued. Measured for all 36 orders of dV, dQ and dK in two
row blocks on an H200: docs/performance-log.md, "Attention backward".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from twill.graph.costed import CostedGraph
from twill.graph.mma_hazards import hazard_pairs, is_mma
from twill.zlp.placement import Arc

if TYPE_CHECKING:
    import networkx as nx


def exchange_order(graph: CostedGraph, groups: Sequence[int], arcs: Sequence[Arc]) -> list[int] | None:
    """All instructions, what the longest chain waits for first. groups: the warp group of each. arcs: what waits for
    what. None if no MMA joins row blocks, or delays of nothing make a cycle."""
    if not joins(graph):
        return None
    import networkx as nx

    order = nx.DiGraph()
    order.add_nodes_from(range(len(graph.instructions)))
    for src, dst, delay, distance in arcs:
        if not distance and src != dst:
            order.add_edge(
                src, dst, delay=max(delay, order.edges[src, dst]["delay"] if order.has_edge(src, dst) else 0)
            )
    if not nx.is_directed_acyclic_graph(order):
        return None
    height = _heights(order)
    runs = list(_runs(graph, groups, order, height))
    order.add_edges_from(pairwise(v for run in runs for v in run))
    for run in runs:
        behind = nx.descendants(order, run[0])
        writers = (writer for writer, mma in hazard_pairs(graph) if mma in run and writer not in behind)
        order.add_edges_from((writer, run[0]) for writer in writers)
    if not nx.is_directed_acyclic_graph(order):
        return None
    return list(nx.lexicographical_topological_sort(order, key=lambda v: (-height[v], v)))


def joins(graph: CostedGraph) -> list[int]:
    """The MMAs that read tiles which instructions of several row blocks make: one that makes all, or one of each row
    block, in their order."""
    makers: dict[int, set[int]] = {}
    for value in graph.values:
        for read in value.reads:
            if is_mma(graph.instructions[read.reader]):
                makers.setdefault(read.reader, set()).add(graph.instructions[value.producer].block)
    found = [reader for reader, blocks in makers.items() if len(blocks - {-1}) > 1]
    return sorted(found, key=lambda v: (graph.instructions[v].block, v))


def _runs(
    graph: CostedGraph, groups: Sequence[int], order: nx.DiGraph, height: Mapping[int, int]
) -> Iterator[list[int]]:
    """Of the warp group of each MMA that joins row blocks, the MMAs that no exchange waits for, as they are issued: see
    the top of this file."""
    import networkx as nx

    joining = joins(graph)
    before = set().union(*(nx.ancestors(order, join) for join in joining), joining)
    for number, join in enumerate(joining):
        others = [i.id for i in graph.instructions if is_mma(i) and groups[i.id] == groups[join] and i.id not in before]
        others.sort(key=lambda v: (-height[v], v))
        free = [v for v in others if v not in nx.descendants(order, join)]
        first = free[:1] if number else []
        yield [*first, join, *(v for v in others if v not in first)]


def _heights(order: nx.DiGraph) -> dict[int, int]:
    """Cycles from the start of each instruction to the start of the last that waits for it, over any others."""
    import networkx as nx

    height: dict[int, int] = {}
    for v in reversed(list(nx.topological_sort(order))):
        height[v] = max((order.edges[v, dst]["delay"] + height[dst] for dst in order.successors(v)), default=0)
    return height
