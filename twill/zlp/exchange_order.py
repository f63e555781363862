"""The order of an iteration in which row blocks exchange tiles.

An MMA that is contracted over the dimension that is split (dQ of attention backward) waits for tiles of all row
blocks. If it is the first MMA behind the exchange in every row block, all of them begin it in the same cycle; they do
everything in step from then on, and the tensor core idles while all of them compute. So the first row block issues it
first, and every other one behind an MMA of its own. All MMAs of a row block behind the exchange are issued one after
the other, so that none is waited for before the last one is issued. Measured for all 36 orders of dV, dQ and dK in two
row blocks on an H200: docs/performance-log.md, "Attention backward".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from twill.graph.costed import CostedGraph
from twill.graph.mma_hazards import hazard_pairs, is_mma
from twill.zlp.placement import Arc

Pairs = set[tuple[int, int]]  # of an instruction and one that comes behind it


def exchange_order(graph: CostedGraph, groups: Sequence[int], arcs: Sequence[Arc]) -> list[int] | None:
    """All instructions, what the longest chain waits for first. groups: the warp group of each. arcs: what waits for
    what. None if no MMA joins row blocks, or delays of nothing make a cycle."""
    joining = joins(graph)
    if not joining:
        return None
    within = [(src, dst, delay) for src, dst, delay, distance in arcs if not distance and src != dst]
    height = _heights(len(graph.instructions), within)
    if height is None:
        return None
    order = {(src, dst) for src, dst, _ in within}
    runs = list(_runs(graph, groups, joining, order, height))
    order |= set(pairwise(v for run in runs for v in run))
    for run in runs:
        behind = _reached(run[0], order)
        order |= {(writer, run[0]) for writer, mma in hazard_pairs(graph) if mma in run and writer not in behind}
    return _by_height(len(graph.instructions), order, height)


def _runs(
    graph: CostedGraph, groups: Sequence[int], joining: Iterable[int], order: Pairs, height: Sequence[int]
) -> Iterator[list[int]]:
    """Of the warp group of each MMA that joins row blocks, the MMAs that no exchange waits for, as they are issued: see
    the top of this file."""
    backwards = {(dst, src) for src, dst in order}
    before = set().union(*(_reached(join, backwards) for join in joining))
    for number, join in enumerate(joining):
        others = [i.id for i in graph.instructions if is_mma(i) and groups[i.id] == groups[join] and i.id not in before]
        others.sort(key=lambda v: (-height[v], v))
        free = [v for v in others if v not in _reached(join, order)]
        first = free[:1] if number else []
        yield [*first, join, *(v for v in others if v not in first)]


def _by_height(count: int, order: Pairs, height: Sequence[int]) -> list[int] | None:
    """Ready instructions, the longest chain first; None if some never are."""
    waits = [0] * count
    for _, dst in order:
        waits[dst] += 1
    ready, found = {v for v in range(count) if not waits[v]}, list[int]()
    while ready:
        v = max(ready, key=lambda one: (height[one], -one))
        ready.remove(v)
        found.append(v)
        for src, dst in order:
            if src == v:
                waits[dst] -= 1
                if not waits[dst]:
                    ready.add(dst)
    return found if len(found) == count else None


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


def _reached(start: int, arcs: Pairs) -> set[int]:
    """What arcs lead to, with the start."""
    reached, frontier = {start}, [start]
    while frontier:
        source = frontier.pop()
        more = {dst for src, dst in arcs if src == source} - reached
        reached |= more
        frontier += more
    return reached


def _heights(count: int, within: Sequence[tuple[int, int, int]]) -> list[int] | None:
    """Cycles from the start of each instruction to the start of the last that waits for it, over any others."""
    height = [0] * count
    for _ in range(count + 1):
        changed = False
        for src, dst, delay in within:
            if height[dst] + delay > height[src]:
                height[src], changed = height[dst] + delay, True
        if not changed:
            return height
    return None
