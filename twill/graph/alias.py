"""Order through global memory: which accesses of one loop may touch the same elements.

Two accesses of one argument, at least one of them a write, are ordered unless they are provably
apart. They are apart if some axis, of equal stride in both, has index ranges that do not meet; the
axes of one tensor are assumed not to overlap in memory, nor do different arguments. Two
reductions that combine alike commute and need no order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from twill.graph.dependence import Edge
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Axis, Loop, Op, loops_of, reads, walk
from twill.tile.vocabulary import ELECTED


@dataclass(frozen=True)
class MemoryNode:
    """A node that accesses memory, with its operation."""

    node: int
    op: Op


@dataclass(frozen=True)
class LoopCounter:
    """The loop's induction value and its step; step None if it is not a known constant. changing: other values that are
    another number in another iteration, such as the row of a nest that is one loop now."""

    induction: int
    step: int | None
    changing: frozenset[int] = frozenset()

    def moves(self, offset: Polynomial) -> bool:
        """Whether it may be another number in another iteration."""
        symbols = offset.symbols()
        return self.induction in symbols or not symbols.isdisjoint(self.changing)


def counter_of(loop: Loop, step: int | None) -> LoopCounter:
    """Of a loop whose step is a known constant, or None."""
    around = [loop, *loops_of(loop.body)]
    changing = {one.induction for one in around}
    changing |= {value for one in around for carry in one.carried for value in (carry.argument, carry.result)}
    for op in walk(loop.body):
        if op.access is not None or op.region is not None or changing.intersection(reads(op)):
            changing.update(op.results)
    return LoopCounter(loop.induction, step, frozenset(changing - {loop.induction}))


def memory_edges(nodes: Sequence[MemoryNode], counter: LoopCounter | None) -> Iterator[Edge]:
    """The memory edges among accesses in program order; `counter` is None in straight-line code.

    An edge across iterations has the smallest distance at which the two accesses can meet.
    """
    for i, u in enumerate(nodes):
        for v in nodes[i:]:
            if ELECTED in (u.op.kind, v.op.kind):
                yield from _around(u, v, counter)
                continue
            if not _conflict(u.op, v.op):
                continue
            together = u is not v and meets(_access(u.op), _access(v.op), counter, 0)
            if together:
                yield Edge(src=u.node, dst=v.node, distance=0, kind="memory", operand="memory")
            if counter is None:
                continue
            pairs = ((v, u), (u, v)) if u is not v else ((u, u),)
            for first, second in pairs:
                distance = first_meeting(_access(first.op), _access(second.op), counter)
                if distance is not None and not (together and first is u):
                    yield Edge(src=first.node, dst=second.node, distance=distance, kind="memory", operand="memory")


def _around(u: MemoryNode, v: MemoryNode, counter: LoopCounter | None) -> Iterator[Edge]:
    """What one thread does for all comes behind every access in front of it, of its iteration and of those before."""
    if u is not v:
        yield Edge(src=u.node, dst=v.node, distance=0, kind="memory", operand="memory")
    if counter is not None:
        yield Edge(src=v.node, dst=u.node, distance=1, kind="memory", operand="memory")


def _access(op: Op) -> Access:
    assert op.access is not None
    return op.access


def _conflict(u: Op, v: Op) -> bool:
    if _access(u).base != _access(v).base or u.kind == v.kind == "tile_load":
        return False
    return not (u.kind == v.kind == "tile_reduce" and u.attributes == v.attributes and not u.results)


def first_meeting(first: Access, second: Access, counter: LoopCounter) -> int | None:
    """The smallest distance >= 1 at which `second` may touch what `first` touched; None if never."""
    for distance in range(1, _horizon(first, second, counter) + 1):
        if meets(first, second, counter, distance):
            return distance
    return None


def _horizon(first: Access, second: Access, counter: LoopCounter) -> int:
    """A distance beyond which an axis on which the two move apart keeps them apart."""
    horizons = []
    for left, right in zip(_carried(first.axes), _carried(second.axes), strict=False):
        gap, growth = _gap(left, right, counter)
        if gap is not None and growth:
            horizons.append((abs(gap) + left.extent + right.extent) // abs(growth) + 1)
    return min(horizons, default=1)


def meets(first: Access, second: Access, counter: LoopCounter | None, distance: int) -> bool:
    """Whether `second` may touch elements that `first` touched `distance` iterations before."""
    comparable = len(first.axes) == len(second.axes) and first.constant == second.constant
    if distance and counter is not None and counter.moves(first.constant):
        return True
    if (
        first.indices
        or second.indices
        or not comparable
        or any(a.stride != b.stride for a, b in zip(first.axes, second.axes, strict=True))
    ):
        return True
    axes = zip(_carried(first.axes), _carried(second.axes), strict=True)
    return not any(_apart(a, b, counter, distance) for a, b in axes)


@lru_cache(maxsize=1024)
def _carried(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes, where a constant that is more than a whole row along an inner axis is so many rows along the next one
    (`p + n * row + column`, for a tile that begins n rows further on): the same addresses."""
    made = list(axes)
    order = sorted((a.stride.constant, n) for n, a in enumerate(axes) if a.stride.is_constant and a.stride.constant > 0)
    for (inner, n), (outer, m) in pairwise(order):
        row, beyond = outer // inner, made[n].offset.constant
        rows = beyond // row if abs(beyond) >= row else 0  # a column in front of a row is one outside of the tile
        if rows and inner < outer and not outer % inner:
            made[n] = replace(made[n], offset=made[n].offset - rows * row)
            made[m] = replace(made[m], offset=made[m].offset + rows)
    return tuple(made)


def _apart(first: Axis, second: Axis, counter: LoopCounter | None, distance: int) -> bool:
    if not first.stride:
        return False
    gap, growth = _gap(first, second, counter)
    if gap is None or (growth is None and distance):
        return False
    start = gap + (growth or 0) * distance  # where the second begins, relative to the first
    return start >= first.extent or -start >= second.extent


def _gap(first: Axis, second: Axis, counter: LoopCounter | None) -> tuple[int | None, int | None]:
    """Constant offset of the second from the first in one iteration, and how much the second moves
    an iteration; None for what is not constant.
    """
    difference = second.offset - first.offset
    gap = difference.constant if difference.is_constant else None
    if counter is None:
        return gap, 0
    return gap, _growth(second.offset, counter)


def _growth(offset: Polynomial, counter: LoopCounter) -> int | None:
    if counter.changing & offset.symbols():
        return None
    if counter.induction not in offset.symbols():
        return 0
    if counter.step is None or any(dict(m).get(counter.induction, 0) > 1 for m, _ in offset.terms):
        return None
    rate = offset.coefficient_of(counter.induction)
    return rate.constant * counter.step if rate.is_constant else None
