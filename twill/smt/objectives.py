"""The objectives behind I as terms of an encoding: a lower bound on each, and "at most so much"."""

from __future__ import annotations

from twill.smt.encoding import Encoding

OBJECTIVES = ("ii", "copies", "crossing", "length", "registers")


def shortest_length(e: Encoding) -> int:
    """A lower bound on L: the longest path of same-iteration dependences, forced crossings included."""
    graph = e.graph
    earliest = [0] * len(graph.instructions)
    for _ in graph.instructions:
        changed = False
        for d in graph.edges:
            if d.distance:
                continue
            forced = d.crossing if e.same(d.src, d.dst) == "false" else 0
            t = earliest[d.src] + d.delay + forced
            if t > earliest[d.dst]:
                earliest[d.dst], changed = t, True
        if not changed:
            break
    return max(t + i.latency for t, i in zip(earliest, graph.instructions, strict=True))


def length_at_most(e: Encoding, length: int) -> str:
    """Every instruction completes by `length` (fixed I)."""
    latest = {i.id: length - i.latency for i in e.graph.instructions}
    if min(latest.values()) < 0:
        return "false"
    terms = [term for v, cycle in latest.items() for term in e.starts_by(v, cycle)]
    return f"(and {' '.join(terms)})"


def forced_crossing(e: Encoding) -> int:
    """Crossing cycles of the value edges whose ends can never share a warp group."""
    return sum(d.crossing for d in e.graph.edges if d.kind == "value" and e.same(d.src, d.dst) == "false")


def crossing_sums(e: Encoding) -> tuple[int, ...]:
    """All that the crossing can come to, rising."""
    sums = {forced_crossing(e)}
    for weight in _crossing_weights(e).values():
        sums |= {s + weight for s in sums}
    return tuple(sorted(sums))


def crossing_at_most(e: Encoding, cycles: int) -> str:
    """The value edges between warp groups cost at most `cycles`."""
    terms = [f"(ite {literal} 0 {weight})" for literal, weight in _crossing_weights(e).items()]
    return f"(<= (+ {forced_crossing(e)} 0 {' '.join(terms)}) {cycles})"


def _crossing_weights(e: Encoding) -> dict[str, int]:
    """Crossing cycles by the literal that avoids them."""
    weights: dict[str, int] = {}
    for d in e.graph.edges:
        same = e.same(d.src, d.dst)
        if d.kind == "value" and d.crossing and same not in ("true", "false"):
            weights[same] = weights.get(same, 0) + d.crossing
    return weights


def registers_at_most(e: Encoding, total: int) -> str:
    """The budgets of the used slots sum to at most `total` registers per thread."""
    terms = [f"(ite used{s.id} b{s.id} 0)" for s in e.slots]
    return f"(<= (+ 0 {' '.join(terms)}) {total // e.machine.register_file.granule})"
