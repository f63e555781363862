"""Larger loops out of costed ones: a loop unrolled, loops side by side; and an unrolled loop folded again."""

from __future__ import annotations

from dataclasses import dataclass

from twill.graph.costed import CostedEdge, CostedGraph, CostedValue, Instruction, Read


def unrolled(graph: CostedGraph, times: int) -> CostedGraph:
    """The loop whose iteration is `times` iterations of `graph`, in their order.

    Instruction v of the k-th of them has the id v + k·n, with n instructions in `graph`. What reached δ iterations
    ahead reaches the copy (k + δ) mod `times`, (k + δ) div `times` iterations ahead. Accumulators stay one.
    """
    n, m = len(graph.instructions), 1 + max((x.id for x in graph.values), default=-1)

    def at(v: int, k: int, distance: int) -> tuple[int, int]:
        later, copy = divmod(k + distance, times)
        return v + copy * n, later

    instructions: list[Instruction] = []
    edges: list[CostedEdge] = []
    values: list[CostedValue] = []
    for k in range(times):
        instructions += [i.model_copy(update={"id": i.id + k * n}) for i in graph.instructions]
        for e in graph.edges:
            dst, distance = at(e.dst, k, e.distance)
            edges.append(e.model_copy(update={"src": e.src + k * n, "dst": dst, "distance": distance}))
        for x in graph.values:
            reads = (at(r.reader, k, r.distance) for r in x.reads)
            moved = {"id": x.id + k * m, "producer": x.producer + k * n}
            described = tuple(Read(reader=v, distance=distance) for v, distance in reads)
            values.append(x.model_copy(update={**moved, "reads": described}))
    invariants = tuple(
        i.model_copy(update={"readers": tuple(r + k * n for k in range(times) for r in i.readers)})
        for i in graph.invariants
    )
    return graph.model_copy(
        update={
            "instructions": tuple(instructions),
            "edges": tuple(edges),
            "values": tuple(values),
            "invariants": invariants,
        }
    )


@dataclass(frozen=True)
class Folded:
    """A loop that is `graph` unrolled `times` times."""

    graph: CostedGraph
    times: int


def folded(graph: CostedGraph) -> Folded | None:
    """The smallest loop that `graph` is an unrolling of, copy after copy; None if of none but itself.

    Names and lines do not count.
    """
    count = len(graph.instructions)
    for times in range(count, 1, -1):
        if count % times:
            continue
        found = _first_copy(graph, times)
        if found is not None and _alike(unrolled(found, times), graph):
            return Folded(found, times)
    return None


def _first_copy(graph: CostedGraph, times: int) -> CostedGraph | None:
    """What `graph` would be an unrolling of: what begins in its first copy."""
    n = len(graph.instructions) // times

    def at(v: int, distance: int) -> tuple[int, int]:
        return v % n, v // n + distance * times

    edges = []
    for e in graph.edges:
        if e.src < n:
            dst, distance = at(e.dst, e.distance)
            edges.append(e.model_copy(update={"dst": dst, "distance": distance}))
    values: list[CostedValue] = []
    for x in graph.values:
        if x.producer < n:
            reads = (at(r.reader, r.distance) for r in x.reads)
            values.append(
                x.model_copy(update={"id": len(values), "reads": tuple(Read(reader=v, distance=d) for v, d in reads)})
            )
    invariants = tuple(
        i.model_copy(update={"readers": tuple(sorted({r % n for r in i.readers}))}) for i in graph.invariants
    )
    found = {"edges": tuple(edges), "values": tuple(values), "invariants": invariants}
    return graph.model_copy(update={"instructions": graph.instructions[:n], **found})


def _alike(a: CostedGraph, b: CostedGraph) -> bool:
    """Whether two graphs are the same but for names, lines, sources and the order in which things are told."""

    def described(g: CostedGraph) -> list[object]:
        unnamed = {"name": "", "line": 0, "source": 0}
        return [
            [i.model_copy(update=unnamed) for i in g.instructions],
            sorted((e.src, e.dst, e.delay, e.distance, e.crossing, e.kind) for e in g.edges),
            sorted(
                (x.producer, x.space, x.bytes, x.registers, x.spill, x.block, -1 if x.storage is None else x.storage,
                 tuple(sorted((r.reader, r.distance) for r in x.reads))) for x in g.values
            ),
            sorted((i.space, i.bytes, i.registers, i.block, tuple(sorted(i.readers))) for i in g.invariants),
        ]  # fmt: skip

    return described(a) == described(b)
