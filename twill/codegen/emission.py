"""Kernel file -> emitted kernel: extract, solve, emit; solve again with more room if the build would run badly.

The model counts the registers of tiles and estimates the rest. If ptxas needs more than the estimate (it spills, or
makes MMAs wait for want of registers, or of quiet around them), the schedule is solved again with some registers of
each computing warp group kept free of tiles. The schedule that comes of it obeys the machine as it is: it is checked
against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from twill import exc
from twill.codegen.compile.facts import KernelFacts
from twill.codegen.emit import Emission, emit
from twill.codegen.emittable import refuse_unemittable
from twill.codegen.lower.candidates import Recorder, unrecorded
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.targets.base import target_of
from twill.graph.build import Wired, wire
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import Specialization, resolve
from twill.kernel.ttir import generic
from twill.machine.description import Context, Figure, Machine
from twill.machine.occupancy import register_pool
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import Schedule
from twill.tile.access.resolve import resolve_accesses
from twill.tile.odd_sizes import tile_program
from twill.tile.program import TileProgram
from twill.tile.rewrite.conditional_rescale import RescaleReport, rescale_conditionally
from twill.tile.rewrite.pipeline import DEFAULT, Rewriting, rewrite
from twill.tile.translate.translate import from_mlir

ATTEMPTS = 4  # builds of one kernel, the first included
STEP = 2  # granules of registers that are kept free in addition, at least, after each refusal

Solver = Callable[[DependenceGraph, Machine], Schedule]
OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Extracted:
    """A kernel as far as no machine matters. wired: its program behind the last rewrite, with the dependence graph that
    is solved, scheduled and lowered. order: in which its program instances are to be worked on."""

    specialization: Specialization
    wired: Wired
    rescale_report: RescaleReport
    order: Order = "chosen"

    @property
    def program(self) -> TileProgram:
        """The tile program that is lowered."""
        return self.wired.program

    @property
    def graph(self) -> DependenceGraph:
        """Its dependence graph."""
        return self.wired.graph


def extract(
    target: str,
    spec: str | None = None,
    sig: Sequence[str] = (),
    const: Sequence[str] = (),
    conditional: bool = True,
    rewriting: Rewriting = DEFAULT,
    order: Order = "chosen",
    strict: bool = False,
    fp_fusion: bool = True,
) -> Extracted:
    """`FILE[::KERNEL]` and its specialization, as for `twill.graph.extract`, with all that emission needs.

    conditional: whether running maxima may move only when they must (`twill.tile.rewrite.conditional_rescale`).
    rewriting: see `twill.tile.rewrite.pipeline`. order: see `twill.codegen.lower.dynamic_scheduler`. strict: whether
    every number is rounded where and as the kernel says (`twill.codegen.numerics`); nothing is lazy then. fp_fusion:
    false turns it off whatever the specialization says.
    """
    specialization = resolve(target, spec=spec, sig=sig, const=const, strict=strict)
    specialization = replace(specialization, fp_fusion=specialization.fp_fusion and fp_fusion)
    program = resolve_accesses(tile_program(specialization))
    found = _extracted(specialization, program, conditional and not specialization.strict, rewriting)
    return replace(found, order=order)


def extract_module(module: str, specialization: Specialization) -> Extracted:
    """The same, from Triton's module of the specialization, as Triton keeps it with a compiled kernel."""
    program = resolve_accesses(from_mlir(generic(module), specialization))
    return _extracted(specialization, program, not specialization.strict, DEFAULT)


def _extracted(
    specialization: Specialization, program: TileProgram, conditional: bool, rewriting: Rewriting
) -> Extracted:
    """What emitted code is compared with (`TileProgram.original`) is the program as it was written, in front of every
    rewriting: running maxima move at once in it."""
    refuse_unemittable(program)
    rewritten = rewrite(program, rewriting)
    rescale_report = rescale_conditionally(rewritten) if conditional else RescaleReport(rewritten)
    if rescale_report.program is not program:
        rescale_report = replace(rescale_report, program=replace(rescale_report.program, original=program))
    return Extracted(specialization, wire(rescale_report.program), rescale_report)


def emit_solved(
    kernel: Extracted,
    machine: Machine,
    solve: Solver,
    notify: OnStep = lambda text: None,
    cluster: int = 1,
    record: Recorder = unrecorded,
) -> Emission:
    """The kernel, solved by `solve` and emitted. cluster: CTAs that load tiles together
    (`twill.codegen.lower.multicast`). record: gets what became of each candidate of each schedule.

    Errors: NoTarget, and UnsupportedInKernel for an MMA that the target lacks, before anything is solved; those of
    `solve` and of `twill.codegen.emit.emit`; BuildRejected if neither room helps nor what is slower.
    """
    target_of(machine).refuse(kernel.graph)
    reserve, refused = 0, False
    first: Schedule | None = None
    for _ in range(ATTEMPTS):
        try:
            schedule = solve_with_room(kernel.graph, machine, reserve, solve)
        except (exc.Infeasible, exc.BudgetExhausted):
            if not refused:
                raise
            break  # nothing that fits was found
        first = first or schedule
        try:
            return emit(kernel.wired, kernel.specialization, schedule, machine, notify, kernel.order, cluster, record)
        except exc.BuildRejected as rejected:
            refused = True
            reserve += slack(schedule, machine) + missing(rejected, machine)
            notify(f"{rejected.message}: solving again with {reserve} registers of each thread kept free of tiles")
    assert first is not None
    notify("no room helps: what is slower than what the compiler refused")
    return emit(kernel.wired, kernel.specialization, first, machine, notify, kernel.order, cluster, record, True)


def emit_scheduled(
    kernel: Extracted,
    machine: Machine,
    schedule: Schedule,
    notify: OnStep = lambda text: None,
    cluster: int = 1,
    record: Recorder = unrecorded,
) -> Emission:
    """The kernel, emitted with a given schedule. cluster, record: as for `emit_solved`.

    Errors: NoTarget, UnsupportedInKernel, ScheduleMismatch, InvalidSchedule, those of `emit`.
    """
    target_of(machine).refuse(kernel.graph)
    refuse_foreign(schedule, kernel.graph, machine)
    check_or_raise(schedule, machine)
    return emit(kernel.wired, kernel.specialization, schedule, machine, notify, kernel.order, cluster, record)


def solve_with_room(graph: DependenceGraph, machine: Machine, reserve: int, solve: Solver) -> Schedule:
    """A schedule for `machine` that leaves `reserve` registers of each computing thread free of tiles."""
    if not reserve:
        return solve(graph, machine)
    schedule = solve(graph, roomier(machine, reserve))
    digest = machine.digest()
    loops = tuple(
        loop.model_copy(update={"graph": loop.graph.model_copy(update={"machine_digest": digest})})
        for loop in schedule.loops
    )
    schedule = schedule.model_copy(update={"machine_digest": digest, "loops": loops})
    check_or_raise(schedule, machine)
    return schedule


def roomier(machine: Machine, reserve: int) -> Machine:
    """The machine with `reserve` more registers of overhead in every context that multiplies."""
    computing = _computing(machine)

    def with_room(context: Context) -> Context:
        if context.name not in computing:
            return context
        source = f"{context.overhead.source}; {reserve} more after a build that ran out of registers"
        figure = Figure(value=context.overhead.value + reserve, source=source)
        return context.model_copy(update={"overhead": figure})

    return machine.model_copy(update={"contexts": tuple(map(with_room, machine.contexts))})


def _computing(machine: Machine) -> tuple[str, ...]:
    """Names of the contexts that multiply; all of them if none does."""
    return machine.mma.contexts if machine.mma else tuple(context.name for context in machine.contexts)


def slack(schedule: Schedule, machine: Machine) -> int:
    """Registers per thread that each computing group could have beyond its budget, and had in the build: lowering hands
    out what the schedule leaves. Keeping only so many free would lead to the same schedule."""
    computing = [group for group in schedule.warp_groups if group.context in _computing(machine)]
    pool = register_pool(sum(group.threads for group in schedule.warp_groups), machine)
    free = pool - sum(group.threads * group.registers for group in schedule.warp_groups)
    shared = free // max(1, sum(group.threads for group in computing))
    own = (machine.context(group.context).max_registers - group.registers for group in computing)
    granule = machine.register_file.granule
    return max(0, min([shared, *own])) // granule * granule


def missing(rejected: exc.BuildRejected, machine: Machine) -> int:
    """Registers per thread to keep free in addition: what was spilled, or a few."""
    granule = machine.register_file.granule
    facts = rejected.facts
    spilled = facts.spill_stores // 4 if isinstance(facts, KernelFacts) else 0  # 4 bytes each
    return max(STEP, min(4 * STEP, -(-spilled // granule))) * granule


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
