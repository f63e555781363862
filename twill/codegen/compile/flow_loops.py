"""Natural loops of a flow graph, by dominators (Aho, Lam, Sethi, Ullman: Compilers, section 9.6)."""

from __future__ import annotations

from collections.abc import Sequence

from twill.reach import reach


def natural_loops(successors: Sequence[Sequence[int]]) -> dict[int, set[int]]:
    """Header -> all nodes of its loop, for a graph entered at node 0. Loops of one header are one."""
    order = _reverse_postorder(successors)
    predecessors: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for after in successors[node]:
            predecessors[after].append(node)
    parent = _dominator_parents(order, predecessors)
    number = {node: i for i, node in enumerate(order)}
    loops: dict[int, set[int]] = {}
    for node in order:
        for after in successors[node]:
            if number[after] <= number[node] and _dominates(after, node, parent):  # a dominator comes first
                loops.setdefault(after, {after}).update(_reaching(node, after, predecessors))
    return loops


def _reverse_postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    """Reachable nodes, each before what follows it, loops aside."""
    if not successors:
        return []
    seen, done = {0}, []
    stack = [(0, iter(successors[0]))]
    while stack:
        node, rest = stack[-1]
        after = next((n for n in rest if n not in seen), None)
        if after is None:
            done.append(node)
            stack.pop()
            continue
        seen.add(after)
        stack.append((after, iter(successors[after])))
    return done[::-1]


def _dominator_parents(order: list[int], predecessors: dict[int, list[int]]) -> dict[int, int]:
    """Each node's immediate dominator, the entry's being itself (Cooper, Harvey, Kennedy: A Simple, Fast Dominance
    Algorithm)."""
    number = {node: i for i, node in enumerate(order)}
    parent = {node: node for node in order[:1]}
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [p for p in predecessors[node] if p in parent]
            best = known[0]
            for other in known[1:]:
                while best != other:
                    if number[best] > number[other]:
                        best = parent[best]
                    else:
                        other = parent[other]
            if parent.get(node) != best:
                parent[node], changed = best, True
    return parent


def _dominates(above: int, node: int, parent: dict[int, int]) -> bool:
    """Whether every way to `node` passes `above`."""
    while node != above and parent[node] != node:
        node = parent[node]
    return node == above


def _reaching(node: int, header: int, predecessors: dict[int, list[int]]) -> set[int]:
    """Nodes from which `node` can be reached without passing `header`."""
    return reach([node], lambda at: () if at == header else predecessors[at])
