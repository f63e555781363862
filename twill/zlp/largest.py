"""The largest initiation interval that is worth asking about."""

from __future__ import annotations

from twill.graph.costed import CostedGraph


def largest_ii(graph: CostedGraph) -> int:
    """An I beyond which feasibility cannot change.

    Give every instruction the interval from its start over all it causes (hold, unit use, delay,
    crossing, spill). At an I above the sum of these, some cycle modulo I lies in none of them;
    leaving it out of the schedule shortens I by one and breaks no rule.
    """
    total = 0
    for i in graph.instructions:
        delays = [d.delay + d.crossing for d in graph.edges if d.src == i.id]
        spills = [i.latency + v.spill for v in graph.values if v.producer == i.id]
        uses = [u.start + u.cycles for u in i.uses]
        total += max([1, i.hold, i.latency, *delays, *spills, *uses])
    return total
