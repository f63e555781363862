"""The order of a program among what waits for one another."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush


def program_order(count: int, waits: Iterable[tuple[int, int]]) -> list[int]:
    """0 ... count - 1 so that the first of each pair comes before the second, else by number. What is in a cycle of
    pairs, or behind one, comes last, by number."""
    within: TopologicalSorter[int] = TopologicalSorter({v: () for v in range(count)})
    for src, dst in waits:
        if src != dst:
            within.add(dst, src)
    with suppress(CycleError):  # what no cycle holds up has its place
        within.prepare()
    order: list[int] = []
    ready = sorted(within.get_ready())
    while ready:
        order.append(heappop(ready))
        within.done(order[-1])
        for v in within.get_ready():
            heappush(ready, v)
    return order + sorted(set(range(count)) - set(order))
