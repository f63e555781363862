"""Symmetry of row blocks: where they can be exchanged, the order of their first instructions is fixed."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from twill.graph.costed import CostedGraph, CostedValue


def ids_by_block(graph: CostedGraph) -> dict[int, list[int]]:
    """The instructions of each row block."""
    blocks: dict[int, list[int]] = {}
    for i in graph.instructions:
        if i.block >= 0:
            blocks.setdefault(i.block, []).append(i.id)
    return blocks


def first_of_neighbours(graph: CostedGraph) -> list[tuple[int, int]]:
    """The first instruction of each row block, with that of the next one."""
    return list(pairwise(ids[0] for _, ids in sorted(ids_by_block(graph).items())))


@lru_cache(maxsize=64)
def blocks_alike(graph: CostedGraph) -> bool:
    """Whether renaming one row block to another maps the graph to itself (same order of ids)."""
    blocks = ids_by_block(graph)
    shapes = [_shape(graph, b, blocks) for b in blocks]
    return all(s == shapes[0] for s in shapes[1:]) and _speak_alike(graph, blocks)


def _speak_alike(graph: CostedGraph, blocks: dict[int, list[int]]) -> bool:
    """Whether the edges and reads between two row blocks are the same for every pair."""
    number = {v: n for ids in blocks.values() for n, v in enumerate(ids)}
    between: dict[tuple[int, int], list[tuple[object, ...]]] = {(a, b): [] for a in blocks for b in blocks if a != b}
    for e in graph.edges:
        pair = graph.instructions[e.src].block, graph.instructions[e.dst].block
        if pair in between:
            between[pair].append((number[e.src], number[e.dst], e.delay, e.distance, e.crossing, e.kind))
    for x in graph.values:
        for r in x.reads:
            pair = graph.instructions[x.producer].block, graph.instructions[r.reader].block
            if pair in between:
                between[pair].append((number[x.producer], number[r.reader], r.distance))
    listed = [sorted(one, key=str) for one in between.values()]
    return all(one == listed[0] for one in listed[1:])


def _shape(graph: CostedGraph, block: int, blocks: dict[int, list[int]]) -> list[object]:
    """All that the graph says of a row block, with its own instructions numbered from 0."""
    ids = blocks[block]
    position = {v: f"own{n}" for n, v in enumerate(ids)}
    others = {v: f"other{n}" for b, found in blocks.items() if b != block for n, v in enumerate(found)}

    def place(v: int) -> str:
        return position.get(v, others.get(v, f"shared{v}"))

    def reads(x: CostedValue) -> tuple[tuple[str, int], ...]:
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


def _stored(x: CostedValue, number: dict[int, int]) -> int:
    """Which of its row block's storages a value lives in: -1 for none, -2 for another's."""
    return -1 if x.storage is None else number.get(x.storage, -2)
