"""Row blocks that may be exchanged: a renaming of instructions that leaves the whole graph as it is."""

from __future__ import annotations

from collections import Counter

from twill.graph.costed import CostedGraph


def exchange(graph: CostedGraph, one: int, other: int) -> dict[int, int]:
    """The renaming of instructions that swaps two row blocks, position by position; {} if they have different sizes."""
    mine = [i.id for i in graph.instructions if i.block == one]
    theirs = [i.id for i in graph.instructions if i.block == other]
    if len(mine) != len(theirs):
        return {}
    renamed = {i.id: i.id for i in graph.instructions}
    renamed |= dict(zip(mine, theirs, strict=True)) | dict(zip(theirs, mine, strict=True))
    return renamed


def exchangeable(graph: CostedGraph, one: int, other: int) -> bool:
    """Whether swapping row blocks `one` and `other` makes the same graph of it: then so it does of every schedule."""
    renamed = exchange(graph, one, other)
    return bool(renamed) and described(graph, renamed) == described(graph, {i.id: i.id for i in graph.instructions})


def described(graph: CostedGraph, renamed: dict[int, int]) -> list[object]:
    """All that rules say anything about, with other numbers for the instructions and none for the rest."""
    plain = {"id": 0, "name": "", "block": 0, "source": 0, "line": 0}
    stored: dict[int, Counter[int]] = {}
    for value in graph.values:
        if value.storage is not None:
            stored.setdefault(value.storage, Counter())[renamed[value.producer]] += 1
    return [
        {renamed[i.id]: i.model_copy(update=plain) for i in graph.instructions},
        Counter((renamed[e.src], renamed[e.dst], e.delay, e.distance, e.crossing, e.kind) for e in graph.edges),
        Counter(
            (
                renamed[x.producer],
                x.space,
                x.bytes,
                x.registers,
                x.spill,
                frozenset(Counter((renamed[r.reader], r.distance) for r in x.reads).items()),
                None if x.storage is None else frozenset(stored[x.storage].items()),
            )
            for x in graph.values
        ),
        Counter(
            (s.space, s.bytes, s.registers, frozenset(stored.get(s.id, Counter()).items())) for s in graph.storages
        ),
        Counter(
            (x.space, x.bytes, x.registers, frozenset(Counter(renamed[r] for r in x.readers).items()))
            for x in graph.invariants
        ),
    ]
