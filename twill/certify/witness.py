"""Witnesses of the lower bounds (`twill.zlp`), so that somebody else can compute them again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from twill.certify.bounds import Kind, LifetimePath, NotExcluded, Witness, exclude, least_delay
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.document import Bounds
from twill.zlp.recurrence import certain_arcs, positive_cycle


def witnesses(graph: CostedGraph, machine: Machine, bounds: Bounds, smallest: int) -> tuple[Witness, ...]:
    """Witnesses that exclude all I below `smallest`, as far as the bounds do, the strongest simple one first."""
    found: list[Witness] = []
    closed = 1
    simple = {"resource": bounds.resource, "recurrence": bounds.recurrence, "issue": bounds.issue}
    for kind in sorted(simple, key=lambda name: -simple[name]):
        value = min(simple[kind], smallest)
        if value <= closed:
            continue
        one = next((w for w in _simple(graph, machine, kind, closed, value - 1) if _holds(graph, machine, w)), None)
        if one is not None:
            found.append(one)
            closed = value
    if min(bounds.memory, smallest) > closed:
        for place in ("shared", "tmem", "register"):
            end = min(bounds.memory, smallest) - 1
            one = Witness(kind="memory", ii=closed, ii_to=end, place=place, lives=tuple(_lives(graph, place)))
            if _holds(graph, machine, one):
                found.append(one)
                break
    return tuple(found)


def _holds(graph: CostedGraph, machine: Machine, witness: Witness) -> bool:
    try:
        exclude(graph, machine, witness)
    except NotExcluded:
        return False
    return True


def _simple(graph: CostedGraph, machine: Machine, kind: Kind | str, ii: int, end: int) -> Iterator[Witness]:
    """Candidates for a witness of one bound that excludes [ii, end]."""
    if kind == "resource":
        for unit in sorted({use.unit for i in graph.instructions for use in i.uses}):
            yield Witness(kind="resource", ii=ii, ii_to=end, place=unit)
    if kind == "recurrence":
        arcs = certain_arcs(graph)
        cycle = positive_cycle([i.id for i in graph.instructions], arcs, end)
        yield Witness(kind="recurrence", ii=ii, ii_to=end, edges=tuple(arcs.index(arc) for arc in cycle))
    if kind == "issue":
        names = sorted(c.name for c in machine.contexts)
        for count in range(1, len(names) + 1):
            for chosen in combinations(names, count):
                yield Witness(kind="issue", ii=ii, ii_to=end, contexts=chosen)


def _lives(graph: CostedGraph, place: str) -> Iterator[LifetimePath]:
    """For every value in a memory, read and number of iterations, the path that keeps it alive longest."""
    for n, value in enumerate(graph.values):
        if value.space != place or value.storage is not None:
            continue
        if not value.reads and place != "register":
            yield LifetimePath(value=n, read=-1, edges=())
        farthest = max((read.distance for read in value.reads), default=0)
        paths = _longest(graph, value.producer, farthest)
        for number, read in enumerate(value.reads):
            for distance in range(read.distance + 1):
                if (read.reader, distance) in paths:
                    yield LifetimePath(value=n, read=number, edges=paths[read.reader, distance][1])


def _longest(graph: CostedGraph, source: int, farthest: int) -> dict[tuple[int, int], tuple[int, tuple[int, ...]]]:
    """The longest path from `source` to every instruction and summed distance up to `farthest`: delay and edges."""
    best: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {(source, 0): (0, ())}
    for _ in range(len(graph.instructions) * (farthest + 1)):
        changed = False
        for n, edge in enumerate(graph.edges):
            for distance in range(farthest - edge.distance + 1):
                known = best.get((edge.src, distance))
                if known is None:
                    continue
                there = (edge.dst, distance + edge.distance)
                longer = known[0] + least_delay(graph, n)
                if (there not in best or longer > best[there][0]) and n not in known[1]:
                    best[there] = (longer, (*known[1], n))
                    changed = True
        if not changed:
            break
    return best
