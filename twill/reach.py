"""Reachability in a graph that a function gives the edges of."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reach(start: Iterable[Node], step: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """`start`, and all that one step or more lead to from there."""
    found = set(start)
    pending = list(found)
    while pending:
        fresh = set(step(pending.pop())) - found
        found |= fresh
        pending += fresh
    return found
