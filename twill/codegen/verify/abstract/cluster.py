"""The CTAs that run together: one, or those of a cluster, which touch each other's shared memory and barriers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from twill.codegen.verify.abstract.actor import Actor, CtaState, RingState
from twill.codegen.verify.abstract.barriers import NamedBarrierState
from twill.codegen.verify.abstract.instance_assignment import InstanceAssignment
from twill.codegen.verify.abstract.memory import GlobalTensors, SharedTiles
from twill.codegen.verify.abstract.order import Clock, join
from twill.codegen.verify.abstract.scalars import EvaluationScope, no_element
from twill.codegen.verify.abstract.scheduling import CommonScalars, Index, LaunchedCta
from twill.codegen.verify.abstract.violation import Findings
from twill.codegen.warp.program import Stmt, WarpProgram


def cluster_of(
    program: WarpProgram,
    scalars: Mapping[str, int | float],
    grid: Index,
    tensors: GlobalTensors,
    findings: Findings,
    places: Sequence[int],
    clusters: tuple[int, int],
    watch: Callable[[Actor, Stmt], None] | None,
) -> list[CtaState]:
    """A fresh CTA, or as many as a cluster has, by rank. places: of the
    instances that a CTA fetches. clusters: which one this is, of how many."""
    size = program.cluster.ctas if program.cluster is not None else 1
    ranks = range(size)
    number, of = clusters
    ctas = [LaunchedCta(number * size + rank, of * size, rank) for rank in ranks]
    scopes = [EvaluationScope(scalars, grid, (0, 0, 0), no_element, {}, cta.says(), tensors.tensors) for cta in ctas]
    programs = [renumbered(program, rank * len(program.groups), rank) for rank in ranks]
    roles = {group.id: group.role for own in programs for group in own.groups}
    made = [
        CtaState(
            own,
            SharedTiles.of(own.buffers, findings),
            tensors,
            [RingState.of(aref, aref.id + rank * len(own.arefs), where(rank)) for aref in own.arefs],
            [NamedBarrierState(barrier.name, barrier.groups) for barrier in own.barriers],
            findings,
            scalars,
            grid,
            roles,
            InstanceAssignment(places),
            ctas[rank],
            CommonScalars.of(own.setup, own.once, scopes[rank]),
            watch,
        )
        for rank, own in enumerate(programs)
    ]
    for machine in made:
        machine.others = [other for other in made if other is not machine]
    return made


def where(rank: int) -> str:
    """Behind the name of what CTAs other than the first have."""
    return f" of CTA {rank}" if rank else ""


def renumbered(program: WarpProgram, by: int, rank: int) -> WarpProgram:
    """The program with other numbers for its warp groups: those of another CTA."""
    if not by:
        return program
    groups = tuple(replace(g, id=g.id + by, role=f"{g.role}{where(rank)}") for g in program.groups)
    barriers = tuple(replace(b, groups=tuple(g + by for g in b.groups)) for b in program.barriers)
    arefs = tuple(
        replace(a, producer=a.producer + by, consumers=tuple(g + by for g in a.consumers)) for a in program.arefs
    )
    return replace(program, groups=groups, barriers=barriers, arefs=arefs)


def left(machine: CtaState, actors: Sequence[Actor]) -> None:
    """Reports what others do to a CTA that may have ended by then. actors: of all its cluster, after their last
    statement."""
    cluster = machine.program.cluster
    known: Clock = {}
    for actor in actors:
        if actor.machine is machine or (cluster is not None and cluster.meets_last):
            join(known, actor.clock.released())
    for event, time, what, line, role in machine.touched:
        if known.get(event, 0) < time:
            why = "nobody waits for it" if event[0] == "ended" else "the cluster does not meet last"
            text = f"{what} may come after CTA {machine.cta.rank} has ended: {why}"
            machine.findings.add("cluster", text, line, role)
