"""How many products may be unfinished at each wait, counted as Gluon counts them.

A wait of the warp program counts committed groups, of which some have several products and some none. In Gluon every
`warpgroup_mma` is a group of its own. So a wait that leaves p groups leaves as many products as these have, and where
paths differ, the fewest: waiting for more than is asked is right.

A product may also be unfinished when an iteration ends: its accumulator is carried into the next one in flight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from twill.codegen.warp.paths import PathAnalysis
from twill.codegen.warp.program import Commit, Multiply, Pipeline, Stmt, WaitGroups, WarpGroup

MOST = 16  # groups that are followed; no schedule has as many in flight


@dataclass(frozen=True)
class _Group:
    """A committed group: the fewest products it has on any path, and the fragments that they use."""

    products: int = 0
    fragments: frozenset[int] = frozenset()

    def joined(self, other: _Group) -> _Group:
        """Of two paths."""
        return _Group(min(self.products, other.products), self.fragments | other.fragments)


@dataclass(frozen=True)
class ProductWait:
    """outstanding: products that may be unfinished behind the wait. ready: fragments that are complete, or free to be
    overwritten, by it and not before. unfinished: those that products behind it still use."""

    outstanding: int
    ready: frozenset[int]
    unfinished: frozenset[int]


@dataclass(frozen=True)
class ProductsInFlight:
    """Of a warp group, by the identity of statements, which must be objects of their own. waits: its waits. carried: of
    each loop, the fragments of products that are unfinished when an iteration ends."""

    waits: dict[int, ProductWait] = field(default_factory=dict)
    carried: dict[int, frozenset[int]] = field(default_factory=dict)


_State = tuple[_Group, ...]  # the last committed groups, and what is not yet committed at the end


def products_in_flight(group: WarpGroup) -> ProductsInFlight:
    """What is unfinished at the waits of a warp group, and from one iteration of its loops to the next."""
    walker = _Walker()
    walker.block(group.body, (_Group(),))
    return walker.found


class _Walker(PathAnalysis[_State]):
    def __init__(self) -> None:
        self.found = ProductsInFlight()

    def simple(self, stmt: Stmt, before: _State) -> _State:
        """Behind a statement without blocks."""
        match stmt:
            case Multiply(accumulator, a):
                used = frozenset({accumulator, *([a] if isinstance(a, int) else [])})
                return (*before[:-1], _Group(before[-1].products + 1, before[-1].fragments | used))
            case Commit():
                return (*before, _Group())[-MOST:]
            case WaitGroups(pending):
                return self.wait(stmt, pending, before)
        return before

    def wait(self, stmt: Stmt, pending: int, state: _State) -> _State:
        """What a wait leaves, noted."""
        committed, begun = state[:-1], state[-1]
        pending_groups = committed[len(committed) - pending :] if pending < len(committed) else committed
        done = committed[: len(committed) - len(pending_groups)]
        ready = frozenset().union(*(group.fragments for group in done))
        unfinished = frozenset().union(*(group.fragments for group in (*pending_groups, begun)))
        outstanding = sum(group.products for group in pending_groups) + begun.products
        if (before := self.found.waits.get(id(stmt))) is not None:
            outstanding = min(outstanding, before.outstanding)
            ready, unfinished = ready | before.ready, unfinished | before.unfinished
        self.found.waits[id(stmt)] = ProductWait(outstanding, ready, unfinished)
        return (*pending_groups, begun)

    def repeated(self, loop: Pipeline, steady: Iterable[Stmt], state: _State) -> None:
        """What is unfinished when an iteration ends, noted."""
        unfinished = frozenset().union(*(one.fragments for one in self.block(steady, state)))
        self.found.carried[id(loop)] = self.found.carried.get(id(loop), frozenset()) | unfinished

    def joined(self, one: _State, other: _State) -> _State:
        """Aligned at the end; where only one has a group, the other has nothing that could be waited for."""
        longer, shorter = (one, other) if len(one) >= len(other) else (other, one)
        extra = len(longer) - len(shorter)
        return (*longer[:extra], *(a.joined(b) for a, b in zip(longer[extra:], shorter, strict=True)))
