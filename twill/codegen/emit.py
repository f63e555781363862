"""Schedule -> emitted kernel: lower, verify on the abstract machine, print, compile; and the files of all that.

Every step may refuse; nothing that was refused by one gets to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from twill import exc
from twill.codegen.compile.facts import MOST_SPILLED, KernelFacts
from twill.codegen.compile.nvrtc import Build, accepted, compile_cubin
from twill.codegen.lower.candidates import (
    REFUSED,
    Attempt,
    CandidateRefusal,
    LoweringCandidate,
    Recorder,
    candidates,
    search,
    unrecorded,
)
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.lowering import lower_candidate
from twill.codegen.manifest import make_manifest
from twill.codegen.print.cuda.printer import Printed, print_cuda
from twill.codegen.print.cuda.shared import buffers_end, tensor_barriers
from twill.codegen.print.launcher import launcher
from twill.codegen.rereads import rereads
from twill.codegen.room import Roomier, never
from twill.codegen.targets.base import target_of
from twill.codegen.verify.abstract.liveness import crowded, peak
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.verify.ptx.atomic_orders import AtomicKind, reordered
from twill.codegen.verify.ptx.early_accesses import early_accesses
from twill.codegen.verify.ptx.findings import PtxFinding
from twill.codegen.verify.ptx.thread_orders import BarrierPlaces, misordered
from twill.codegen.warp.parameters import partial_sums
from twill.codegen.warp.program import Atomic, Elect, Pipeline, StoreGlobal, WarpProgram
from twill.codegen.warp.text import text
from twill.graph.build import Wired
from twill.kernel.specialization import Specialization, problem_of
from twill.machine.description import Machine
from twill.machine.occupancy import register_pool
from twill.manifest.document import CUBIN, MANIFEST, Manifest
from twill.ptx.parse import parse
from twill.schedule.document import Schedule

Over = Callable[[], bool]
SECONDS = 0.5  # from one question whether it is too late to wait for the compiler to the next
WAITS = ("serialized", "wait")  # causes of a refusal: waits for products that the text has not


@dataclass(frozen=True)
class SlowBuild:
    """A kernel whose build was refused though it would be right, since it spills or since the compiler waits after
    every product. refused: for what, with the build, unless there is none yet."""

    program: WarpProgram
    specialization: Specialization
    schedule: Schedule
    machine: Machine
    refused: exc.BuildRejected
    late: Over = never


@dataclass(frozen=True)
class Emission:
    """An emitted kernel with everything it went through."""

    schedule: Schedule
    program: WarpProgram
    printed: Printed
    build: Build
    manifest: Manifest

    @property
    def facts(self) -> KernelFacts:
        """What ptxas reports of the kernel."""
        return self.build.function(self.printed.function)

    def files(self) -> dict[str, str | bytes]:
        """Every file of an emitted kernel's directory: name -> content."""
        return {
            "kernel.cu": self.build.source,
            CUBIN: self.build.cubin,
            "schedule.json": self.schedule.canonical() + "\n",
            "program.txt": text(self.program),
            "launch.py": launcher(self.manifest),
            MANIFEST: self.manifest.text(),
        }


def emit(
    wired: Wired,
    specialization: Specialization,
    schedule: Schedule,
    machine: Machine,
    on_step: Callable[[str], None] = lambda step: None,
    order: Order = "chosen",
    cluster: int = 1,
    record: Recorder = unrecorded,
    roomier: Callable[[Roomier, exc.CandidateRefused], Roomier | None] = lambda last, rejected: None,
    over: Over = never,
    processes: int = 1,
    late: Over = never,
) -> Emission:
    """The kernel of `schedule`, compiled: the first of its candidates (`twill.codegen.lower.candidates`) that is not
    refused. wired: the program whose graph was scheduled. on_step: gets the name of each step before it begins. order:
    of instances. cluster: CTAs that load tiles together, 1 or 2. record: gets what became of each candidate. roomier: a
    schedule with more registers free than the last one, which the compiler refused, or with more shared memory free
    than the last one, whose rings did not fit. over: whether the time for all of it is. processes: more than one may
    work at it. late: whether so much more is over that nobody waits for the compiler any more.

    Errors: ScheduleMismatch, UnsupportedInKernel, SharedMemoryFull from lowering; WarpProgramBroken, UnknownProblem,
    and BudgetExhausted when the time is over, from the abstract machine, or when it is late; BuildToolsMissing,
    CudaRejected, BuildRejected from compiling, CodeBroken of what was compiled. A CandidateRefused has the least slow
    build (`emit_slow`). Where there is one, nobody waits for another build when the time is over, and that is no error.
    """
    on_step("lowering")
    refused: list[WarpProgram] = []
    slow: list[SlowBuild] = []
    solved = [Roomier(0, schedule)]

    def attempt(candidate: LoweringCandidate) -> Emission | CandidateRefusal:
        scheduled = solved[candidate.solution].schedule
        made = lower_candidate(wired, scheduled, machine, candidate, order, cluster)
        if isinstance(made, CandidateRefusal):
            return made
        if made in refused:
            return CandidateRefusal("it makes a program that was refused")
        if refused:
            on_step(f"again with {candidate.asked}")
        refused.append(made)  # unless it is taken
        try:
            no_longer = over if any(one.refused.build is not None for one in slow) else late
            return _emitted(made, specialization, scheduled, machine, on_step, over, processes, no_longer)
        except exc.BuildRejected as rejected:
            if is_slow(rejected):
                slow.append(SlowBuild(made, specialization, scheduled, machine, rejected, late))
            if candidate.budgets or not has_no_budgets(made):
                raise
            moved = attempt(replace(candidate, budgets=True))
            if isinstance(moved, CandidateRefusal):
                raise
            return moved

    def notify(became: Attempt) -> None:
        record(became)
        if became.verdict.startswith(REFUSED):
            on_step(f"{became.candidate}: {became.verdict}")

    def again(rejected: exc.CandidateRefused) -> Sequence[LoweringCandidate]:
        found = roomier(solved[-1], rejected)
        if found is None:
            return ()
        solved.append(found)
        return candidates(wired.program, found.schedule, machine, found.room, found.shared, len(solved) - 1)

    try:
        return search(candidates(wired.program, schedule, machine), attempt, notify, again, over)
    except (exc.CandidateRefused, exc.UnsupportedInKernel, exc.BudgetExhausted) as last:
        left = min(slow, key=slowness, default=None)
        if isinstance(last, exc.CandidateRefused):
            last.slow_build = left
            raise
        if left is None or (isinstance(last, exc.BudgetExhausted) and left.refused.build is None):
            raise
        left.refused.slow_build = left  # what another candidate has not, or no time for, is no reason against this one
        raise left.refused from last


def has_no_budgets(program: WarpProgram) -> bool:
    """Whether a CTA that has an SM to itself leaves its warp groups the registers of the launch, of which the compiler
    may want more than was thought."""
    return program.ctas == 1 and len(program.groups) > 1 and not any(group.registers for group in program.groups)


def is_slow(rejected: exc.BuildRejected) -> bool:
    """Whether a refused build would be right and is not slower than a last resort may be: waits, and spills of at most
    `MOST_SPILLED` bytes. A kernel that was not built, since its tiles have more registers than its threads, may be."""
    spills = rejected.cause == "spill" and (rejected.facts is None or 0 < rejected.spilled <= MOST_SPILLED)
    return spills or (rejected.cause in WAITS and rejected.spilled <= MOST_SPILLED)


def slowness(one: SlowBuild) -> tuple[bool, bool, int]:
    """In which order such builds are taken: those that only spill, those whose products wait, those that were not built
    yet; each by the bytes that they spill."""
    return one.refused.facts is None, one.refused.cause in WAITS, one.refused.spilled


def least_slow(*refused: exc.CandidateRefused) -> SlowBuild | None:
    """The first of the slow builds among what was refused; None if there is none."""
    found = (one.slow_build for one in refused if isinstance(one.slow_build, SlowBuild))
    return min(found, key=slowness, default=None)


def emit_slow(refused: exc.CandidateRefused, processes: int = 1) -> Emission:
    """The least slow of the builds that were refused, for when nothing else is left to try. Errors: the refusal itself,
    if there is no slow build; those of `emit`."""
    found = least_slow(refused)
    if found is None:
        raise refused
    asked = (found.program, found.specialization, found.schedule, found.machine)
    made = found.refused.build if isinstance(found.refused.build, Build) else None
    try:
        return _emitted(*asked, lambda step: None, found.late, processes, found.late, last_resort=True, made=made)
    except exc.BuildRejected as rejected:  # one that was not built before
        raise refused from rejected


def _emitted(
    warp_program: WarpProgram,
    specialization: Specialization,
    schedule: Schedule,
    machine: Machine,
    on_step: Callable[[str], None],
    over: Over,
    processes: int,
    late: Over,
    last_resort: bool = False,
    made: Build | None = None,
) -> Emission:
    """A warp program, compiled and checked, and its PTX with it. The compiler works beside the abstract machine, and
    ends it where it refuses the build: builds are refused far more often than programs are wrong. last_resort: a
    slow build is taken, too (`is_slow`). made: the build, if there is one."""
    program = warp_program.program
    if not last_resort:
        refuse_crowded(warp_program, machine)
    on_step("printing, compiling, and running on the abstract machine")
    compiler = ThreadPoolExecutor(1, "compiler")
    try:
        building = compiler.submit(build_and_read, warp_program, specialization, schedule, machine, last_resort, made)
        try:
            violations = verify(
                warp_program,
                problem_of(specialization),
                over=lambda: over() or rejected(building),
                processes=processes,
                spilling=last_resort,
            )
        except exc.TwillError:
            if ended(building, late):
                building.result()  # where the compiler refuses the kernel, too, that is the refusal
            raise
        in_time = ended(building, late)
    finally:
        compiler.shutdown(wait=building.done())
    if violations and not rejected(building):
        raise exc.WarpProgramBroken(
            program.kernel, [v.describe() for v in violations], file=program.file, line=violations[0].line
        )
    if not in_time:
        raise exc.BudgetExhausted("the time for the emission is over, and the compiler has not ended")
    return building.result()


def ended(building: Future[Emission], late: Over) -> bool:
    """Waits for a build to end; whether it did before it was too late."""
    while not building.done():
        if late():
            return False
        wait((building,), SECONDS)
    return True


def rejected(building: Future[Emission]) -> bool:
    """Whether a build has ended without a kernel; one whose PTX is wrong is no reason not to look at its program."""
    error = building.exception() if building.done() else None
    return error is not None and not isinstance(error, exc.CodeBroken)


def build_and_read(
    warp_program: WarpProgram,
    specialization: Specialization,
    schedule: Schedule,
    machine: Machine,
    last_resort: bool,
    made: Build | None = None,
) -> Emission:
    """The kernel of a warp program, whose PTX was read for what no statement of the program says. Errors: those of
    `build_kernel`, CodeBroken."""
    built = build_kernel(warp_program, specialization, schedule, machine, last_resort=last_resort, made=made)
    refuse_misordered(warp_program, built)
    refuse_early(warp_program, built)
    return built


def refuse_crowded(warp_program: WarpProgram, machine: Machine) -> None:
    """Raises BuildRejected where some warp group holds so many fragments at once that the compiler would spill: another
    candidate may have room, or a schedule with more registers free."""
    threads = sum(group.threads for group in warp_program.groups)
    launched = register_pool(threads, machine) // threads if has_no_budgets(warp_program) else 0
    for group in warp_program.groups:
        live, line = peak(group)
        registers = group.registers or launched
        excess = crowded(live, registers) if registers else 0
        if excess:
            said = f"tiles of about {live} registers are alive at once in a warp group of {registers}"
            raise exc.BuildRejected(
                "spill", said, None, excess=excess,
                file=warp_program.program.file, line=line, hint="smaller tiles",
            )  # fmt: skip


def refuse_misordered(program: WarpProgram, built: Emission) -> None:
    """Raises CodeBroken where the PTX lacks what orders threads beside the statements of its warp program
    (`twill.codegen.verify.ptx.thread_orders`)."""
    tensor = any(buffer.tensor for buffer in program.buffers)
    stmts = [stmt for group in program.groups for stmt in group.stmts]
    every_thread = any(isinstance(stmt, StoreGlobal) and stmt.old is not None for stmt in stmts)  # orders its own alone
    elects = any(isinstance(stmt, Elect) for stmt in stmts) and not every_thread
    if not tensor and not elects and next(partial_sums(program), None) is None:
        return
    places = BarrierPlaces(tensor_barriers(program), buffers_end(program))
    function = parse(built.build.ptx).function(built.printed.function)
    refuse_broken(program, misordered(function, places, elects))
    if elects:
        asked = [(AtomicKind(one.combine, int(one.element[1:])), one.order) for one in stmts if isinstance(one, Atomic)]
        refuse_broken(program, reordered(function, asked))


def refuse_early(program: WarpProgram, built: Emission) -> None:
    """Raises CodeBroken where a launch that may begin early touches memory before it waits."""
    if built.manifest.early:
        refuse_broken(program, early_accesses(parse(built.build.ptx).function(built.printed.function)))


def refuse_broken(program: WarpProgram, findings: Sequence[PtxFinding]) -> None:
    """Raises CodeBroken where something was found in the PTX."""
    if findings:
        tile = program.program
        raise exc.CodeBroken(tile.kernel, [one.describe() for one in findings], file=tile.file)


def spills_little(program: WarpProgram, machine: Machine) -> bool:
    """Whether what is spilled outside of all loops but those over program instances is little of an instance's work,
    which has loops of its own then. Never on a target without tensor memory: RoPE with seven spilled words takes 1.08
    times as long on an H200 (2026-11-28)."""
    loops = any(isinstance(stmt, Pipeline) for group in program.groups for stmt in group.stmts)
    return loops and target_of(machine).has_tensor_memory


def build_kernel(
    warp_program: WarpProgram,
    specialization: Specialization,
    schedule: Schedule,
    machine: Machine,
    accept_slow: bool = False,
    last_resort: bool = False,
    made: Build | None = None,
) -> Emission:
    """The kernel of a warp program, printed and compiled, which nobody may launch before the program is known to be
    right. Errors as for compiling.

    accept_slow: also one that would run badly, to look at it. last_resort: also one that is slow (`is_slow`). made:
    what the compiler made of it before, which may take it minutes.
    """
    printed = print_cuda(warp_program, machine)
    program = warp_program.program
    persistent = spills_little(warp_program, machine)
    if made is not None:
        build = accepted(made, printed.lines, persistent, last_resort)
    else:
        build = compile_cubin(
            printed.text,
            machine.architecture,
            shapes=printed.shapes,
            lines=printed.lines,
            accept_slow=accept_slow,
            fused=program.fp_fusion and not program.strict,
            persistent=persistent,
            last_resort=last_resort,
        )
    manifest = make_manifest(
        warp_program,
        specialization,
        architecture=machine.architecture,
        entry=printed.function,
        threads=printed.threads,
        cubin=build.cubin,
        schedule=schedule.key,
        rereads=rereads(warp_program, machine),
    )
    return Emission(schedule, warp_program, printed, build, manifest)
