"""The prediction that goes with an emitted kernel (`twill.manifest.prediction`), from its schedule."""

from __future__ import annotations

from twill.graph.costed import CostedGraph
from twill.manifest.prediction import USUAL, Prediction
from twill.schedule.document import LoopSchedule, Schedule


def predict(schedule: Schedule, ctas: int, *, persistent: bool, threads: int = USUAL) -> Prediction:
    """ctas, persistent, threads: as the manifest has them. In a CTA that is not persistent, all warps do everything
    for one program instance, as in Triton's; several CTAs fill each other's waits as far as the units allow."""
    main = max(schedule.loops, key=lambda loop: (loop.ii == schedule.ii, loop.length == schedule.length))
    unit = 1.0 if schedule.normalization is None else schedule.normalization.cycles_per_unit
    scale = unit / schedule.cooperation.fuse
    resource = main.certificate.bounds.resource
    waits = _waits(main) * schedule.cooperation.fuse
    work = sum(one.hold for one in main.graph.instructions if not _loads(main.graph, one.id))
    alone = main.ii if persistent else waits + work * USUAL / threads
    return Prediction(max(resource, alone / ctas) * scale, resource * scale, waits * scale, work * scale)


def _loads(graph: CostedGraph, instruction: int) -> bool:
    """Whether an instruction waits for nothing of its iteration and runs by itself, as a load does."""
    one = next(other for other in graph.instructions if other.id == instruction)
    return one.asynchronous and all(edge.dst != instruction or edge.distance for edge in graph.edges)


def _waits(loop: LoopSchedule) -> float:
    """Latencies of asynchronous instructions on the chain of an iteration that has the most of them. In a loop, loads
    are an iteration ahead."""
    graph = loop.graph
    costs = {
        one.id: 0 if not one.asynchronous or (graph.kind == "loop" and _loads(graph, one.id)) else one.latency
        for one in graph.instructions
    }
    edges = [(edge.src, edge.dst) for edge in graph.edges if not edge.distance and edge.kind == "value"]
    ends = dict(costs)
    for _ in graph.instructions:  # edges within an iteration have no cycle, so every chain is as long as this at most
        before = dict(ends)
        for src, dst in edges:
            ends[dst] = max(ends[dst], ends[src] + costs[dst])
        if ends == before:
            break
    return max(ends.values(), default=0)
