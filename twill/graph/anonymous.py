"""An anonymized dependence graph: what a service stores under a key that all its clients share.

Names are for people, and the key does not depend on them (`twill.graph.canonical`). So one submitter's names must not
become part of the document that all others get. They are replaced one for one, so that what had the same name still
has; whoever reads the entry has its own put in their place (`twill.store.respelling`).
"""

from __future__ import annotations

from twill.graph.dependence import DependenceGraph, Node, Region


class Renaming:
    """New names for old ones, each with the number of its kind: load0, mma1, t0. No name stays no name."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], str] = {}
        self.counts: dict[str, int] = {}

    def name(self, what: str, kind: str, old: str) -> str:
        """The new name of `old` among the names of `what`. kind: what it is called after if it is new."""
        if not old:
            return ""
        if (what, old) not in self.known:
            number = self.counts.get(kind, 0)
            self.counts[kind] = number + 1
            self.known[what, old] = f"{kind}{number}"
        return self.known[what, old]


def anonymous(graph: DependenceGraph) -> DependenceGraph:
    """The same graph, of the same key. Kernel, specialization and lines stay: lists are searched by the first two."""
    names = Renaming()
    return graph.model_copy(
        update={
            "file": "",
            "dims": tuple(dim.model_copy(update={"name": names.name("dim", "d", dim.name)}) for dim in graph.dims),
            "regions": tuple(_region(region, names) for region in graph.regions),
        }
    )


def _region(region: Region, names: Renaming) -> Region:
    inputs = tuple(i.model_copy(update={"name": names.name("value", "input", i.name)}) for i in region.inputs)
    return region.model_copy(
        update={
            "trip": region.trip.model_copy(update={"text": "n"}) if region.trip else None,
            "nodes": tuple(_node(node, names) for node in region.nodes),
            "carried": tuple(
                c.model_copy(update={"name": names.name("value", "carried", c.name)}) for c in region.carried
            ),
            "inputs": inputs,
        }
    )


def _node(node: Node, names: Renaming) -> Node:
    operations = tuple(dict.fromkeys(count.operation.partition(".")[0] for count in node.counts))
    return node.model_copy(
        update={
            "name": names.name("value", operations[0] if operations else node.kind, node.name),
            "operations": operations if node.operations else (),
            "transport_reason": "",
            "tensor": names.name("tensor", "t", node.tensor),
        }
    )
