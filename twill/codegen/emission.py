"""Extracted kernel -> emitted kernel: solve, emit; solve again with more room if the build would run badly.

The choices that a schedule leaves open, and schedules with more room, are candidates of one search
(`twill.codegen.lower.candidates`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from twill import exc
from twill.codegen.emit import Emission, emit, emit_slow, least_slow
from twill.codegen.extraction import Extracted as Extracted
from twill.codegen.extraction import extract as extract
from twill.codegen.extraction import extract_module as extract_module
from twill.codegen.lower.candidates import REFUSED, Attempt, Recorder, candidates, unrecorded
from twill.codegen.lowerable import refuse_unlowerable
from twill.codegen.room import (
    PatientSolver,
    Roomier,
    Solver,
    beyond,
    holds_tiles,
    missing,
    never,
    slack,
    solve_with_room,
)
from twill.codegen.targets.base import target_of
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import Schedule, Strategy
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import in_program_order
from twill.solve.without_overlap import exchanges, shares, without_overlap

ATTEMPTS = 4  # schedules of one kernel, the first included
ALONE: Strategy = "none"  # of a schedule whose iterations do not overlap: no MMA is in flight beside other work
IN_FLIGHT = ("serialized", "wait", "spill")  # of MMAs whose registers others use, and of tiles of several iterations

OnStep = Callable[[str], None]


def emit_solved(
    kernel: Extracted,
    machine: Machine,
    solve: Solver,
    notify: OnStep = lambda text: None,
    cluster: int = 1,
    record: Recorder = unrecorded,
    processes: int = 1,
    fixed: bool = False,
) -> Emission:
    """The kernel, solved by `solve` and emitted; with products as it has them where transposed ones have no schedule,
    or no room. cluster: CTAs that load tiles together (`twill.codegen.lower.multicast`). record: gets what became of
    each candidate of each schedule. fixed: the schedule is what somebody asked for, with pins or a certain I; else row
    blocks that have shares of an MMA do not overlap iterations, in an order that is faster
    (`twill.zlp.exchange_order`). A PatientSolver ends all of it in its time.

    Errors: those of `refuse_unlowerable`, before anything is solved; those of `solve` and of
    `twill.codegen.emit.emit`; BuildRejected if no room helps.
    """
    asked = (machine, solve, notify, cluster, record, processes, fixed)
    try:
        return _emit_solved(kernel, *asked)
    except (exc.Infeasible, exc.CandidateRefused, exc.UnsupportedInKernel) as refused:
        written = kernel.as_written()
        if written is None:
            raise
        notify(f"{refused.message}: solving again with products as the kernel has them")
        try:
            return _emit_solved(written, *asked)
        except exc.BudgetExhausted as ended:
            raise refused from ended
        except (exc.Infeasible, exc.UnsupportedInKernel) as unlike:
            if least_slow(*([refused] if isinstance(refused, exc.CandidateRefused) else [])) is None:
                raise
            raise refused from unlike  # it has a slow build
        except exc.CandidateRefused as again:
            if isinstance(refused, exc.CandidateRefused):
                again.slow_build = least_slow(again, refused)
            raise


def refuse_before_solving(kernel: Extracted, machine: Machine) -> None:
    """Raises what `emit_solved` raises before it solves anything: UnsupportedInKernel, Infeasible, NoTarget."""
    try:
        refuse_unlowerable(kernel.on(machine).wired, machine)
    except (exc.UnsupportedInKernel, exc.Infeasible):
        written = kernel.as_written()
        if written is None:
            raise
        refuse_unlowerable(written.on(machine).wired, machine)


def with_slow_builds(make: Callable[[], Emission], note: OnStep = lambda text: None, processes: int = 1) -> Emission:
    """What `make` makes; where all that it tries is refused, the least slow of the builds that would be right
    (`twill.codegen.emit.emit_slow`), with a note. For whoever has nothing else to ask for. Errors: those of `make`."""
    try:
        return make()
    except exc.CandidateRefused as refused:
        made = emit_slow(refused, processes)
    name, spilled = made.program.program.kernel, made.facts.spill_stores
    if any(remark.serialized or remark.injected_wait for remark in made.facts.remarks):
        what = "is compiled with waits behind its products" + (
            f", and spills {spilled} bytes a thread" if spilled else ""
        )
    else:
        what = f"spills: {spilled} bytes a thread"
    note(f"{name} {what}, as all that was tried; smaller tiles may be faster")
    return made


def _emit_solved(
    kernel: Extracted,
    machine: Machine,
    solve: Solver,
    notify: OnStep,
    cluster: int,
    record: Recorder,
    processes: int,
    fixed: bool,
) -> Emission:
    """The kernel as it is. Errors: as above."""
    kernel = kernel.on(machine)
    in_order = refuse_unlowerable(kernel.wired, machine)
    rounds = count(1)

    def roomier(last: Roomier, rejected: exc.CandidateRefused) -> Roomier | None:
        if untried:
            return untried.pop()
        room, shared = last.room, last.shared
        if isinstance(rejected, exc.SharedMemoryFull):
            more = beyond(rejected, last.schedule, machine)
            shared, what = more or 0, f"{more} bytes of shared memory kept free of each loop's rings"
            if more is None:
                return None
        elif not holds_tiles(last.schedule, machine):
            return one_by_one(last, rejected)
        else:
            room += slack(last.schedule, machine) + missing(rejected, last.schedule, machine)
            what = f"{room} registers of each thread kept free of tiles"
        if next(rounds) == ATTEMPTS:
            return None
        notify(f"{rejected.message}: solving again with {what}")
        try:
            found = solve_with_room(kernel.graph, machine, room, solve, shared)
            sequential = one_by_one(last, rejected) if found.strategy == ALONE else None  # the solver's time was over
            joined = exchanges(found) and not fixed
            apart = without_overlap(found, kernel.graph, machine) if joined and sequential is None else None
            untried.extend([Roomier(room, found, shared)] if apart is not None else [])
            return sequential or Roomier(room, apart or found, shared)
        except (exc.Infeasible, exc.BudgetExhausted) as unsolved:  # what refused the last one is the answer
            every = candidates(kernel.program, last.schedule, machine, room, shared)
            record(Attempt(every[0], f"{REFUSED}{unsolved.message}"))
            return one_by_one(last, rejected)

    def no_more(last: Roomier, rejected: exc.CandidateRefused) -> Roomier | None:
        return None

    def one_by_one(last: Roomier, rejected: exc.CandidateRefused) -> Roomier | None:
        if (
            not isinstance(rejected, exc.BuildRejected)
            or rejected.cause not in IN_FLIGHT
            or last.schedule.strategy == ALONE
        ):
            return None
        notify(f"{rejected.message}: scheduling again with iterations that do not overlap")
        scheduled = without_overlap(last.schedule, kernel.graph, machine)
        written = in_program_order(kernel.graph, machine, SolveOptions(fuse=False))
        found = [one for one in (scheduled, written) if one is not None]
        return Roomier(0, min(found, key=lambda one: one.ii)) if found else None

    schedule = solve(kernel.graph, machine)
    over, late = (solve.over, solve.late) if isinstance(solve, PatientSolver) else (never, never)
    asked = (notify, kernel.order, cluster, record)
    patience = (over, processes, late)
    exchanging = without_overlap(schedule, kernel.graph, machine) if shares(schedule) and not fixed else None
    first = exchanging or schedule
    untried = [Roomier(0, schedule)] if exchanging else []  # behind what is tried in front of it
    try:
        return emit(kernel.wired, kernel.specialization, first, machine, *asked, roomier, *patience)
    except (exc.CandidateRefused, exc.UnsupportedInKernel) as refused:
        slow = least_slow(refused) if isinstance(refused, exc.CandidateRefused) else None
        built = slow is not None and slow.refused.facts is not None
        if built or schedule.strategy == ALONE or over():
            raise
        notify(f"{refused.message}: scheduling in the order of the program")
        try:
            return emit(kernel.wired, kernel.specialization, in_order, machine, *asked, no_more, *patience)
        except exc.CandidateRefused as again:
            again.slow_build = least_slow(*[one for one in (again, refused) if isinstance(one, exc.CandidateRefused)])
            if again.slow_build is None:
                raise refused from again
            raise
        except exc.UnsupportedInKernel as unlike:
            raise refused from unlike


def emit_scheduled(
    kernel: Extracted,
    machine: Machine,
    schedule: Schedule,
    notify: OnStep = lambda text: None,
    cluster: int = 1,
    record: Recorder = unrecorded,
    processes: int = 1,
) -> Emission:
    """The kernel, emitted with a given schedule. cluster, record: as for `emit_solved`.

    Errors: NoTarget, UnsupportedInKernel, ScheduleMismatch, InvalidSchedule, those of `emit`.
    """
    written = kernel.as_written()
    if written is not None and not _is_of(schedule, kernel.graph, machine) and _is_of(schedule, written.graph, machine):
        kernel = written
    kernel = kernel.on(machine)
    target_of(machine).refuse(kernel.graph)
    refuse_foreign(schedule, kernel.graph, machine)
    check_or_raise(schedule, machine)
    asked = (notify, kernel.order, cluster, record)
    return emit(kernel.wired, kernel.specialization, schedule, machine, *asked, processes=processes)


def _is_of(schedule: Schedule, graph: DependenceGraph, machine: Machine) -> bool:
    """Whether a schedule was solved for this graph."""
    try:
        refuse_foreign(schedule, graph, machine)
    except exc.ScheduleMismatch:
        return False
    return True


def refuse_foreign(schedule: Schedule, graph: DependenceGraph, machine: Machine) -> None:
    """Raises ScheduleMismatch unless the schedule was solved for this kernel as it is now, on this machine."""
    theirs = (schedule.kernel, schedule.spec, schedule.machine_digest)
    ours = (graph.kernel, graph.spec, machine.digest())
    words = (
        f"kernel {schedule.kernel}, not {graph.kernel}",
        f"specialization {schedule.spec}, not {graph.spec}",
        f"machine {schedule.machine}, not {machine.name}"
        + (" as it is now" if schedule.machine == machine.name else ""),
    )
    for word, their, our in zip(words, theirs, ours, strict=True):
        if their != our:
            raise _mismatch(f"is for {word}", graph)
    regions = {region.id: region for region in graph.regions}
    for loop in schedule.loops:
        region = regions.get(loop.loop)
        if region is None or _work(cost(graph, region, machine, schedule.cooperation)) != _work(loop.graph):
            raise _mismatch(f"is for another version of this kernel (the loop at its line {loop.line})", graph)


def _mismatch(what: str, graph: DependenceGraph) -> exc.ScheduleMismatch:
    return exc.ScheduleMismatch(
        f"the schedule {what}", file=graph.file, hint="solve the kernel again, or no --schedule"
    )


def _work(graph: CostedGraph) -> object:
    """What a loop does, without names, lines and cycles (which normalization changes)."""
    instructions = tuple((i.id, i.op, i.unit, i.block, i.source) for i in graph.instructions)
    edges = tuple((e.src, e.dst, e.distance, e.kind) for e in graph.edges)
    values = tuple((v.id, v.producer, v.space, v.bytes, v.registers, v.storage) for v in graph.values)
    return instructions, edges, values
