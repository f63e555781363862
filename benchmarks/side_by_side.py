"""Costed graphs of several loops as one: loops larger than those of the examples, for measurements of scale."""

from __future__ import annotations

from collections.abc import Sequence

from twill.graph.costed import CostedEdge, CostedGraph, CostedValue, Instruction, Invariant, Read, Storage


def side_by_side(graphs: Sequence[CostedGraph]) -> CostedGraph:
    """One loop that does an iteration of every one of `graphs`, which are for one machine and share nothing but it.

    Row blocks are numbered on, so that none of one loop is taken for one of another.
    """
    first = graphs[0]
    if any((g.machine_digest, g.interleaved) != (first.machine_digest, first.interleaved) for g in graphs):
        raise ValueError("the loops are costed for different machines")
    instructions: list[Instruction] = []
    edges: list[CostedEdge] = []
    values: list[CostedValue] = []
    storages: list[Storage] = []
    invariants: list[Invariant] = []
    for g in graphs:
        v, x, s, i = len(instructions), _next(values), _next(storages), _next(invariants)
        b = 1 + max((o.block for o in instructions), default=-1)

        def block(own: int, b: int = b) -> int:
            return own if own < 0 else own + b

        instructions += [o.model_copy(update={"id": o.id + v, "block": block(o.block)}) for o in g.instructions]
        edges += [e.model_copy(update={"src": e.src + v, "dst": e.dst + v}) for e in g.edges]
        for value in g.values:
            reads = tuple(Read(reader=r.reader + v, distance=r.distance) for r in value.reads)
            stored = None if value.storage is None else value.storage + s
            moved = {"id": value.id + x, "producer": value.producer + v, "block": block(value.block)}
            values.append(value.model_copy(update={**moved, "reads": reads, "storage": stored}))
        storages += [o.model_copy(update={"id": o.id + s, "block": block(o.block)}) for o in g.storages]
        for invariant in g.invariants:
            readers = tuple(r + v for r in invariant.readers)
            moved = {"id": invariant.id + i, "block": block(invariant.block)}
            invariants.append(invariant.model_copy(update={**moved, "readers": readers}))
    return first.model_copy(
        update={
            "name": " and ".join(g.name for g in graphs),
            "instructions": tuple(instructions),
            "edges": tuple(edges),
            "values": tuple(values),
            "storages": tuple(storages),
            "invariants": tuple(invariants),
        }
    )


def _next(described: Sequence[CostedValue] | Sequence[Storage] | Sequence[Invariant]) -> int:
    return 1 + max((x.id for x in described), default=-1)
