"""The recurrence bound: the largest ratio of delay to distance over the cycles of the graph (RecMII)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twill.exc import ImpossibleCycle
from twill.graph.costed import CostedGraph
from twill.zlp.bound import NO_BOUND, LowerBound, by_id, ceil_div, must_cross


@dataclass(frozen=True)
class Arc:
    """t(dst) + distance·I ≥ t(src) + delay in every schedule, crossings that cannot be avoided included."""

    src: int
    dst: int
    delay: int
    distance: int


def certain_arcs(graph: CostedGraph) -> tuple[Arc, ...]:
    """The graph's edges; an edge that no warp group can contain pays its crossing."""
    instruction = by_id(graph)
    arcs = []
    for edge in graph.edges:
        crossing = edge.crossing if must_cross(instruction[edge.src], instruction[edge.dst]) else 0
        arcs.append(Arc(edge.src, edge.dst, edge.delay + crossing, edge.distance))
    return tuple(arcs)


def recurrence_bound(graph: CostedGraph) -> LowerBound:
    """The largest ⌈Σ delay / Σ distance⌉ over the cycles of the graph. Raises ImpossibleCycle.

    Proof. Adding t(dst) + distance·I ≥ t(src) + delay along a cycle cancels every t and leaves
    I·Σ distance ≥ Σ delay. An edge whose ends no warp group can contain has its crossing added,
    which the dependence rule then demands.

    A cycle that violates the current I gives a larger one, until none does (Howard's idea with
    Bellman-Ford as the test): each step names a cycle, so the last one is the witness.
    """
    arcs = certain_arcs(graph)
    nodes = [instruction.id for instruction in graph.instructions]
    best = NO_BOUND
    while cycle := positive_cycle(nodes, arcs, best.value):
        delay, distance = sum(a.delay for a in cycle), sum(a.distance for a in cycle)
        if distance == 0:
            raise ImpossibleCycle(describe(graph, cycle), line=graph.line)
        value = ceil_div(delay, distance)
        words = f"{describe(graph, cycle)} takes {delay} cycles and feeds itself {distance} iteration(s) later"
        best = LowerBound(value, words)
    return best


def positive_cycle(nodes: Sequence[int], arcs: Sequence[Arc], ii: int) -> tuple[Arc, ...]:
    """A cycle with Σ (delay − distance·I) > 0 for I = ii, in order; () if there is none.

    Asked for every I of every cooperation: on the largest loop of the examples (29 instructions) this takes 18
    microseconds, and networkx's `negative_edge_cycle` with the graph that it needs 760.
    """
    time = dict.fromkeys(nodes, 0)
    came: dict[int, Arc] = {}
    changed = -1
    for _ in range(len(nodes) + 1):
        changed = -1
        for arc in arcs:
            least = time[arc.src] + arc.delay - arc.distance * ii
            if least > time[arc.dst]:
                time[arc.dst] = least
                came[arc.dst] = arc
                changed = arc.dst
        if changed < 0:
            return ()
    at = changed
    for _ in nodes:  # walk back far enough to be on the cycle
        at = came[at].src
    cycle = [came[at]]
    while cycle[-1].src != at:
        cycle.append(came[cycle[-1].src])
    return tuple(reversed(cycle))


def describe(graph: CostedGraph, cycle: Sequence[Arc]) -> str:
    """The instructions of a cycle in order, with their lines."""
    instruction = by_id(graph)
    names = [f"{instruction[a.src].name or instruction[a.src].op} (line {instruction[a.src].line})" for a in cycle]
    return "the chain " + " -> ".join([*names, names[0]])
