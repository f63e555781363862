"""Row blocks as a symmetry: whether they are alike, so that their order may be fixed."""

from __future__ import annotations

from functools import lru_cache

from twill.graph.costed import CostedGraph, Value


@lru_cache(maxsize=64)
def blocks_alike(graph: CostedGraph) -> bool:
    """Whether renaming one row block to another maps the graph to itself (same order of ids)."""
    blocks: dict[int, list[int]] = {}
    for i in graph.instructions:
        if i.block >= 0:
            blocks.setdefault(i.block, []).append(i.id)
    shapes = [_shape(graph, b, ids) for b, ids in blocks.items()]
    return all(s == shapes[0] for s in shapes[1:]) and "foreign" not in str(shapes[:1])


def _shape(graph: CostedGraph, block: int, ids: list[int]) -> list[object]:
    """All that the graph says of a row block, with its own instructions numbered from 0."""
    position = {v: f"own{n}" for n, v in enumerate(ids)}

    def place(v: int) -> str:
        return position.get(v, f"shared{v}" if graph.instructions[v].block < 0 else "foreign")

    def reads(x: Value) -> tuple[tuple[str, int], ...]:
        mine = [r for r in x.reads if r.reader in position or x.block == block]
        return tuple(sorted((place(r.reader), r.distance) for r in mine))

    def issuer(tag: str) -> str:
        """Of a tag that only instructions of the block have, the first of them."""
        tagged = [i for i in graph.instructions if tag and i.single_issuer == tag]
        return position[tagged[0].id] if tagged and all(i.block == block for i in tagged) else tag

    def anonymous(v: int) -> object:
        one = graph.instructions[v]
        update = {"id": 0, "block": 0, "name": "", "source": 0, "single_issuer": issuer(one.single_issuer)}
        return one.model_copy(update=update)

    storages = [x for x in graph.storages if x.block == block]
    number = {x.id: n for n, x in enumerate(storages)}
    return [
        [anonymous(v) for v in ids],
        [(x.space, x.bytes, x.registers) for x in storages],
        sorted(
            (x.space, x.bytes, x.registers, x.block == block, *sorted(place(r) for r in x.readers if r in position))
            for x in graph.invariants
            if x.block == block or any(r in position for r in x.readers)
        ),
        sorted(
            (place(d.src), place(d.dst), d.delay, d.distance, d.crossing, d.kind)
            for d in graph.edges
            if d.src in position or d.dst in position
        ),
        sorted(
            (place(x.producer), x.space, x.bytes, x.registers, x.spill, _stored(x, number), reads(x))
            for x in graph.values
            if x.producer in position or any(r.reader in position for r in x.reads)
        ),
    ]


def _stored(x: Value, number: dict[int, int]) -> int:
    """Which of its row block's storages a value lives in: -1 for none, -2 for another's."""
    return -1 if x.storage is None else number.get(x.storage, -2)
