"""Which loops of a kernel are scheduled, and which of them is the main one."""

from __future__ import annotations

from twill.exc import NothingToSchedule
from twill.graph.dependence import DependenceGraph, Region


def main_region(graph: DependenceGraph) -> Region:
    """The loop with the most work: one whose trip count grows with the problem beats a constant one."""
    regions = [r for r in graph.regions if r.kind == "loop" and r.nodes]
    if not regions:
        regions = [r for r in graph.regions if r.nodes]
    if not regions:
        raise NothingToSchedule(
            f"{graph.kernel} has no tile instruction to schedule",
            file=graph.file,
            hint="a kernel that loads, computes and stores tiles",
        )
    return max(regions, key=lambda r: (_trip(r), _work(r), -r.id))


def schedulable(graph: DependenceGraph) -> list[Region]:
    """The regions that get a schedule: all loops, or the straight line of a kernel without one."""
    loops = [r for r in graph.regions if r.kind == "loop" and r.nodes]
    return loops or [main_region(graph)]


def _trip(region: Region) -> float:
    if region.trip is None:
        return 0
    return float("inf") if region.trip.constant is None else region.trip.constant


def _work(region: Region) -> int:
    return sum(sum(c.elements for c in n.counts) + (n.mma.m * n.mma.n * n.mma.k if n.mma else 0) for n in region.nodes)


def is_straight(graph: DependenceGraph) -> bool:
    """Whether a kernel has neither a loop nor a matrix multiply."""
    return not any(region.kind == "loop" or any(node.mma for node in region.nodes) for region in graph.regions)
