"""Natural loops of a flow graph, by dominators (Aho, Lam, Sethi, Ullman: Compilers, section 9.6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from twill.reach import reach


def natural_loops(successors: Sequence[Sequence[int]]) -> dict[int, set[int]]:
    """Header -> all nodes of its loop, for a graph entered at node 0. Loops of one header are one."""
    import networkx as nx

    flow = nx.DiGraph((node, after) for node, behind in enumerate(successors) for after in behind)
    if 0 not in flow:
        return {}
    number = {node: place for place, node in enumerate(nx.dfs_postorder_nodes(flow, 0))}  # of what is reachable
    parent = nx.immediate_dominators(flow, 0)
    loops: dict[int, set[int]] = {}
    live = flow.subgraph(number)
    for node, header in live.edges:
        if number[header] >= number[node] and header in _dominators(node, parent):  # a dominator is left last
            loops.setdefault(header, {header}).update(_reaching(node, header, live.pred))
    return loops


def _dominators(node: int, parent: Mapping[int, int]) -> Iterator[int]:
    """The nodes that every way to `node` passes, itself first."""
    yield node
    while node in parent:
        node = parent[node]
        yield node


def _reaching(node: int, header: int, predecessors: Mapping[int, Iterable[int]]) -> set[int]:
    """Nodes from which `node` can be reached without passing `header`."""
    return reach([node], lambda at: () if at == header else predecessors[at])
