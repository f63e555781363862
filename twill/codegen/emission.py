"""Kernel file -> emitted kernel: extract, solve, emit; solve again with more room if the build would run badly.

The choices that a schedule leaves open, and schedules with more room, are candidates of one search
(`twill.codegen.lower.candidates`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from twill import exc
from twill.codegen.emit import Emission, emit, emit_spilling, least_spilling
from twill.codegen.emittable import refuse_unemittable
from twill.codegen.lower.candidates import REFUSED, Attempt, Recorder, candidates, unrecorded
from twill.codegen.lower.dynamic_scheduler import Order
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
from twill.codegen.targets.programs import program_on
from twill.graph.build import Wired, wire
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import Specialization, resolve
from twill.kernel.ttir import generic
from twill.machine.description import Machine
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import Schedule, Strategy
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve as solve_alone
from twill.tile.access.resolve import resolve_accesses
from twill.tile.odd_sizes import Known, tile_program
from twill.tile.program import TileProgram
from twill.tile.rewrite.conditional_rescale import RescaleReport, rescaling
from twill.tile.rewrite.pipeline import EVERYTHING, EXTRACTED, Allowed, in_parts, rewrite
from twill.tile.translate.translate import from_mlir

ATTEMPTS = 4  # schedules of one kernel, the first included
ALONE: Strategy = "none"  # of a schedule whose iterations do not overlap: no MMA is in flight beside other work
IN_FLIGHT = ("serialized", "wait", "spill")  # of MMAs whose registers others use, and of tiles of several iterations

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Extracted:
    """A kernel as far as no machine matters. wired: its program behind the last rewrite, with the dependence graph that
    is solved, scheduled and lowered. behind: the program as it was written ("extracted") and behind each rewrite,
    by name. order: in which its program instances are to be worked on. allowed: what the rewrites were allowed."""

    specialization: Specialization
    wired: Wired
    behind: Mapping[str, TileProgram]
    order: Order = "chosen"
    allowed: Allowed = EVERYTHING

    @property
    def program(self) -> TileProgram:
        """The tile program that is lowered."""
        return self.wired.program

    @property
    def graph(self) -> DependenceGraph:
        """Its dependence graph."""
        return self.wired.graph

    @property
    def rescale_report(self) -> RescaleReport:
        """What conditional rescaling made of the running maxima of the kernel."""
        before, after = self.behind["vector-sides"], self.behind["conditional-rescale"]
        return RescaleReport(before) if after is before else rescaling(before)

    def on(self, machine: Machine, integers: bool = True) -> Extracted:
        """The kernel as the machine's target takes it (`twill.codegen.targets.programs`). integers: whether what is
        printed has products of int8."""
        made = program_on(self.program, machine, integers)
        return self if made is self.program else replace(self, wired=wire(made))

    def as_written(self) -> Extracted | None:
        """The kernel with its products as it has them; None if none was transposed."""
        if self.behind["computed-operands"] is self.behind["mma-precision"]:
            return None
        allowed = replace(self.allowed, transposed=False)
        return replace(_extracted(self.specialization, self.behind[EXTRACTED], allowed), order=self.order)


def extract(
    target: str,
    spec: str | None = None,
    sig: Sequence[str] = (),
    const: Sequence[str] = (),
    allowed: Allowed = EVERYTHING,
    order: Order = "chosen",
    strict: bool = False,
    fp_fusion: bool = True,
    split: int | None = None,
    known: Known | None = None,
) -> Extracted:
    """`FILE[::KERNEL]` and its specialization, as for `twill.graph.extract`, with all that emission needs.

    allowed: rewrites of the tile program. order: see `twill.codegen.lower.dynamic_scheduler`. strict: whether every
    number is rounded where and as the kernel says (`twill.codegen.numerics`). fp_fusion: false turns it off whatever
    the specialization says. split: into how many parts K is split (None: as the specialization says).
    known: programs that were read before (`twill.tile.odd_sizes`).
    """
    specialization = resolve(target, spec=spec, sig=sig, const=const, strict=strict)
    specialization = replace(specialization, fp_fusion=specialization.fp_fusion and fp_fusion)
    program = resolve_accesses(tile_program(specialization, known))
    return replace(_extracted(specialization, program, in_parts(allowed, specialization, split)), order=order)


def extract_module(module: str, specialization: Specialization, allowed: Allowed = EVERYTHING) -> Extracted:
    """The same, from Triton's module of the specialization, as Triton keeps it with a compiled kernel."""
    program = resolve_accesses(from_mlir(generic(module), specialization))
    return _extracted(specialization, program, allowed)


def _extracted(specialization: Specialization, program: TileProgram, allowed: Allowed) -> Extracted:
    refuse_unemittable(program)
    behind: dict[str, TileProgram] = {}
    return Extracted(specialization, wire(rewrite(program, allowed, behind.__setitem__)), behind, allowed=allowed)


def emit_solved(
    kernel: Extracted,
    machine: Machine,
    solve: Solver,
    notify: OnStep = lambda text: None,
    cluster: int = 1,
    record: Recorder = unrecorded,
    processes: int = 1,
) -> Emission:
    """The kernel, solved by `solve` and emitted; with products as it has them where transposed ones have no schedule,
    or no room. cluster: CTAs that load tiles together (`twill.codegen.lower.multicast`). record: gets what became of
    each candidate of each schedule. A PatientSolver ends all of it in its time.

    Errors: those of `refuse_unlowerable`, before anything is solved; those of `solve` and of
    `twill.codegen.emit.emit`; BuildRejected if no room helps.
    """
    asked = (machine, solve, notify, cluster, record, processes)
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
        except exc.CandidateRefused as again:
            if isinstance(refused, exc.CandidateRefused):
                again.spilling = least_spilling(again, refused)
            raise


def with_spills(make: Callable[[], Emission], note: OnStep = lambda text: None, processes: int = 1) -> Emission:
    """What `make` makes; where all that it tries is refused, what spills least of it, if that is little
    (`twill.codegen.emit.emit_spilling`), with a note. For whoever has nothing else to ask for. Errors: those of
    `make`."""
    try:
        return make()
    except exc.CandidateRefused as refused:
        made = emit_spilling(refused, processes)
    name, spilled = made.program.program.kernel, made.facts.spill_stores
    note(f"{name} spills, as all that was tried does: {spilled} bytes a thread; smaller tiles may be faster")
    return made


def _emit_solved(
    kernel: Extracted, machine: Machine, solve: Solver, notify: OnStep, cluster: int, record: Recorder, processes: int
) -> Emission:
    """The kernel as it is. Errors: as above."""
    kernel = kernel.on(machine)
    refuse_unlowerable(kernel.wired, machine)
    rounds = count(1)

    def roomier(last: Roomier, rejected: exc.CandidateRefused) -> Roomier | None:
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
            return Roomier(room, solve_with_room(kernel.graph, machine, room, solve, shared), shared)
        except (exc.Infeasible, exc.BudgetExhausted) as unsolved:  # what refused the last one is the answer
            every = candidates(kernel.program, last.schedule, machine, room, shared)
            record(Attempt(every[0], f"{REFUSED}{unsolved.message}"))
            return one_by_one(last, rejected)

    def one_by_one(last: Roomier, rejected: exc.CandidateRefused) -> Roomier | None:
        if (
            not isinstance(rejected, exc.BuildRejected)
            or rejected.cause not in IN_FLIGHT
            or last.schedule.strategy == ALONE
        ):
            return None
        notify(f"{rejected.message}: scheduling again with iterations that do not overlap")
        try:
            return Roomier(0, solve_alone(kernel.graph, machine, SolveOptions(strategy=ALONE)))
        except (exc.Infeasible, exc.BudgetExhausted, exc.StrategyGaveUp):
            return None

    schedule = solve(kernel.graph, machine)
    over = solve.over if isinstance(solve, PatientSolver) else never
    asked = (notify, kernel.order, cluster, record, roomier, over, processes)
    return emit(kernel.wired, kernel.specialization, schedule, machine, *asked)


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
