"""Schedule documents from plans: what a solver would write, with an honest certificate."""

from __future__ import annotations

from typing import Literal

from tests.rules import Plan, copies, crossing, depth, length
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.document import (
    Bounds,
    Certificate,
    LoopSchedule,
    Objective,
    Schedule,
    ScheduledBuffer,
    ScheduledOp,
    ScheduledWarpGroup,
    SolverStep,
)

PROVEN = ("ii", "copies", "crossing", "length", "registers")


def assemble(
    graph: CostedGraph, machine: Machine, plan: Plan, budgets: tuple[int, ...], *, optimal: bool = True
) -> Schedule:
    """The document of a one-loop schedule."""
    loop = loop_schedule(graph, plan, sum(budgets[g] for g in set(plan.groups)), optimal=optimal)
    groups = tuple(
        ScheduledWarpGroup(
            id=group,
            role=f"{name} {group}",
            context=name,
            registers=budgets[group],
            threads=machine.context(name).threads,
        )
        for group, name in enumerate(plan.contexts)
        if group in plan.groups
    )
    return combine(machine, (loop,), ops_of(graph, plan), groups, buffers_of(graph, plan))


def combine(
    machine: Machine,
    loops: tuple[LoopSchedule, ...],
    ops: tuple[ScheduledOp, ...],
    groups: tuple[ScheduledWarpGroup, ...],
    buffers: tuple[ScheduledBuffer, ...],
) -> Schedule:
    """The document of several loops, the first of which is the main one."""
    main = loops[0]
    return Schedule(
        kernel="kernel",
        spec="default",
        machine=machine.name,
        machine_digest=machine.digest(),
        cooperation=main.graph.cooperation,
        normalization=main.graph.normalization,
        ii=main.ii,
        length=main.length,
        copies=main.copies,
        objective=main.objective,
        ops=ops,
        warp_groups=groups,
        buffers=buffers,
        certificate=main.certificate,
        loops=loops,
        candidates=(),
        pins=(),
        solve_seconds=0.5,
        key="0" * 64,
    )


def ops_of(graph: CostedGraph, plan: Plan) -> tuple[ScheduledOp, ...]:
    """The ops of a loop."""
    return tuple(
        ScheduledOp(
            id=i.id,
            loop=graph.region,
            name=i.name,
            op=i.op,
            unit=i.unit,
            line=i.line,
            block=i.block,
            start=plan.starts[i.id],
            stage=plan.starts[i.id] // plan.ii,
            row=plan.starts[i.id] % plan.ii,
            warp_group=plan.groups[i.id],
            cycles=i.latency,
            hold=i.hold,
        )
        for i in graph.instructions
    )


def buffers_of(graph: CostedGraph, plan: Plan) -> tuple[ScheduledBuffer, ...]:
    """The buffers of a loop."""
    items = [(v.name, v.space, v.bytes, depth(graph, plan, v)) for v in graph.values if v.storage is None]
    items += [(s.name, s.space, s.bytes, 1) for s in graph.storages]
    items += [(i.name, i.space, i.bytes, 1) for i in graph.invariants]
    return tuple(
        ScheduledBuffer(name=name, loop=graph.region, space=space, bytes=nbytes, depth=slots)
        for name, space, nbytes, slots in items
        if space != "register"
    )


def loop_schedule(graph: CostedGraph, plan: Plan, registers: int, *, optimal: bool = True) -> LoopSchedule:
    """A loop's figures and certificate: the resource bound, and one refutation for the rest."""
    busy: dict[str, int] = {}
    for instruction in graph.instructions:
        for use in instruction.uses:
            busy[use.unit] = busy.get(use.unit, 0) + use.cycles
    bound = max([1, *busy.values()])
    steps = []
    if optimal and bound < plan.ii:
        steps.append(step(bound, plan.ii - 1, "infeasible"))
    steps.append(step(plan.ii, plan.ii, "feasible"))
    return LoopSchedule(
        loop=graph.region,
        line=graph.line,
        trip="n",
        ii=plan.ii,
        length=length(graph, plan),
        copies=copies(graph, plan),
        objective=Objective(
            ii=plan.ii,
            copies=copies(graph, plan),
            crossing=crossing(graph, plan.groups),
            length=length(graph, plan),
            registers=registers,
            proven=PROVEN if optimal else (),
        ),
        certificate=Certificate(
            bounds=Bounds(resource=bound, recurrence=1, memory=1, issue=1, witness="busiest unit"),
            steps=tuple(steps),
            optimal=optimal,
            lower_bound=plan.ii if optimal else min(bound, plan.ii),
            seed=0,
            resource_limit=0,
            budget_seconds=None,
        ),
        graph=graph,
    )


def step(first: int, last: int, verdict: Literal["feasible", "infeasible"]) -> SolverStep:
    """A question about every number of copies."""
    return SolverStep(
        ii=first, ii_to=last, copies=0, question="feasible", verdict=verdict, solver="exhaustive", seconds=0.1
    )
