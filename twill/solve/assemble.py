"""Put solved loops together into the schedule document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from twill.graph.costed import CostedGraph, Storage
from twill.graph.dependence import DependenceGraph, Region
from twill.machine.description import Machine
from twill.schedule.document import (
    INSTANCES,
    CooperationCandidate,
    LoopSchedule,
    Objective,
    Schedule,
    ScheduledBuffer,
    ScheduledOp,
    ScheduledWarpGroup,
)
from twill.smt.assignment import Assignment
from twill.smt.outcome import Outcome
from twill.smt.roles import roles


@dataclass(frozen=True)
class Solved:
    """One loop with the outcome of its search (which has an assignment)."""

    region: Region
    graph: CostedGraph
    outcome: Outcome

    @property
    def assignment(self) -> Assignment:
        """The assignment found."""
        assert self.outcome.assignment is not None
        return self.outcome.assignment

    @property
    def objective(self) -> Objective:
        """Its objectives."""
        assert self.outcome.objective is not None
        return self.outcome.objective

    @property
    def outcome_ii(self) -> int:
        """The initiation interval found."""
        return self.assignment.ii

    def rank(self) -> tuple[float, ...]:
        """What cooperations are compared by, smaller is better (docs/model.md, Cooperation)."""
        fuse, o = self.graph.cooperation.fuse, self.objective
        return (
            o.ii / fuse,
            fuse,
            not self.in_turn,
            o.copies,
            o.crossing / fuse,
            o.length,
            o.registers,
            self.graph.cooperation.blocks,
        )

    @property
    def in_turn(self) -> bool:
        """Whether one computing warp group keeps the tensor core busy by itself: its loop is nothing but MMAs. A
        second one can then have every other program instance, and begin and end tiles meanwhile."""
        return self.graph.cooperation.blocks == 1 and all(i.asynchronous for i in self.graph.instructions)

    def unproven(self, bound: float) -> Solved:
        """The same, claiming no more than I >= `bound` cycles per program instance (`bound` may equal I)."""
        certificate = self.outcome.certificate
        lower = min(certificate.lower_bound, math.ceil(bound * self.graph.cooperation.fuse))
        proven = self.objective.proven[:1] if lower == self.outcome_ii else ()
        outcome = replace(
            self.outcome,
            objective=self.objective.model_copy(update={"proven": proven}),
            certificate=certificate.model_copy(update={"optimal": False, "lower_bound": lower}),
        )
        return replace(self, outcome=outcome)

    def budgets(self) -> dict[int, int]:
        """Register budget by used slot."""
        a = self.assignment
        return {s.id: a.budget(s.id) for s in a.used}


def assemble(
    graph: DependenceGraph,
    machine: Machine,
    main: Solved,
    solved: Sequence[Solved],
    candidates: Sequence[CooperationCandidate],
    pins: tuple[str, ...],
    key: str,
    seconds: float,
) -> Schedule:
    """The schedule document of all loops; `main` gives the top-level figures."""
    groups = _warp_groups(machine, main, solved)
    number = {slot: g.id for slot, g in groups.items()}
    return Schedule(
        kernel=graph.kernel,
        spec=graph.spec,
        machine=machine.name,
        machine_digest=machine.digest(),
        cooperation=main.graph.cooperation,
        normalization=main.graph.normalization,
        ii=main.objective.ii,
        length=main.objective.length,
        copies=main.objective.copies,
        objective=main.objective,
        ops=tuple(op for s in solved for op in _ops(s, number)),
        warp_groups=tuple(groups.values()),
        buffers=tuple(b for s in solved for b in _buffers(s)),
        certificate=main.outcome.certificate,
        loops=tuple(_loop(s) for s in solved),
        candidates=tuple(candidates),
        pins=pins,
        solve_seconds=seconds,
        key=key,
    )


def budgets_of(solved: Sequence[Solved]) -> dict[int, int]:
    """Registers per thread of warp groups by slot: the most that any of the loops needs."""
    budgets: dict[int, int] = {}
    for s in solved:
        for slot, budget in s.budgets().items():
            budgets[slot] = max(budget, budgets.get(slot, 0))
    return budgets


def _warp_groups(machine: Machine, main: Solved, solved: Sequence[Solved]) -> dict[int, ScheduledWarpGroup]:
    """Warp groups of all loops by slot, numbered from 0; a budget is the largest that any loop needs."""
    names = roles(main.graph, main.assignment.slot, machine)
    budgets = budgets_of(solved)
    for s in solved:
        names = {**roles(s.graph, s.assignment.slot, machine), **names}
    found = {}
    for n, slot in enumerate(sorted(budgets)):
        context = main.assignment.slots[slot].context
        found[slot] = ScheduledWarpGroup(
            id=n, role=names[slot], context=context.name, registers=budgets[slot], threads=context.threads
        )
    return found


def _ops(solved: Solved, number: dict[int, int]) -> list[ScheduledOp]:
    a = solved.assignment
    return [
        ScheduledOp(
            id=i.id,
            loop=solved.region.id,
            name=i.name,
            op=i.op,
            unit=i.unit,
            line=i.line,
            block=i.block,
            start=a.start[i.id],
            stage=a.start[i.id] // a.ii,
            row=a.start[i.id] % a.ii,
            warp_group=number[a.slot[i.id]],
            cycles=i.latency,
            hold=i.hold,
        )
        for i in solved.graph.instructions
    ]


def _buffers(solved: Solved) -> list[ScheduledBuffer]:
    graph, a, loop = solved.graph, solved.assignment, solved.region.id
    rings = [
        ScheduledBuffer(name=v.name, block=v.block, loop=loop, space=v.space, bytes=v.bytes, depth=a.depth(v))
        for v in graph.values
        if v.space != "register" and v.storage is None
    ]
    retained: list[Storage] = [*graph.storages, *graph.invariants]
    resident = [
        ScheduledBuffer(name=r.name, block=r.block, loop=loop, space=r.space, bytes=r.bytes, depth=1)
        for r in retained
        if r.space != "register"
    ]
    return rings + resident


def _loop(solved: Solved) -> LoopSchedule:
    o = solved.objective
    return LoopSchedule(
        loop=solved.region.id,
        line=solved.region.line,
        trip=solved.region.trip.text if solved.region.trip else INSTANCES,
        ii=o.ii,
        length=o.length,
        copies=o.copies,
        objective=o,
        certificate=solved.outcome.certificate,
        graph=solved.graph,
    )
