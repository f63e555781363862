"""Schedule -> a module of Gluon: lowered without what Gluon has no words for, checked, printed, compiled.

The warp program is the one that the CUDA printer gets but for passes that only save instructions
(`twill.codegen.print.gluon.sayable`). The abstract machine checks what is printed, and the PTX that Triton makes of the
module can be executed on the CPU (`twill.trial.gluon`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from twill import exc
from twill.codegen.compile.gluon.read_back import differences
from twill.codegen.compile.gluon.triton import (
    CompiledModule,
    available,
    compile_kernel,
    descriptor_type,
    load,
    scalar_type,
)
from twill.codegen.emission import Extracted, OnStep, refuse_foreign
from twill.codegen.lower.candidates import CandidateRefusal, LoweringCandidate, candidates
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.lower.streams import streams
from twill.codegen.lowering import with_barriers
from twill.codegen.numerics import changes
from twill.codegen.passes.pipeline import run_passes
from twill.codegen.print.gluon import blackwell, hopper
from twill.codegen.print.gluon.decided import decided
from twill.codegen.print.gluon.fetched import COUNTER
from twill.codegen.print.gluon.module import GluonModule, print_gluon
from twill.codegen.print.gluon.sayable import UNSAID, sayable
from twill.codegen.print.gluon.shared import FILE, shared_text
from twill.codegen.targets.base import target_of
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import WarpProgram
from twill.codegen.warp.text import text
from twill.graph.build import Wired
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import problem_of
from twill.machine.description import Machine
from twill.manifest.document import sha256
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import Schedule

SCHEMA = "twill.gluon/5"
MODULE, MANIFEST = "{}_gluon.py", "gluon.json"
MOST_LOCAL = 16 * 4
"""Bytes of a thread that a module may keep in local memory: 16 registers, which a main loop can do without."""
ATTEMPTS = 6  # lowerings that are compiled, each for some seconds, before a module is refused for what it keeps there
ARCHITECTURES = {**hopper.ARCHITECTURES, **blackwell.ARCHITECTURES}
PAIR = 2  # CTAs that multiply together, where a schedule is one of pairs
LAUNCH, COUNTED = "i32", "ptr:i32"  # what the launcher adds to the arguments of the Triton kernel


@dataclass(frozen=True)
class ModuleOptions:
    """What Triton is asked for. multiples: what parameters are multiples of. fused: whether a product and a sum may be
    one operation. ctas: of a cluster."""

    capability: int
    multiples: dict[str, int]
    fused: bool
    ctas: int = 1


@dataclass(frozen=True)
class GluonEmission:
    """A module with everything it went through. compiled: what the installed Triton made of it."""

    schedule: Schedule
    program: WarpProgram
    module: GluonModule
    signature: tuple[tuple[str, str], ...]
    asked: ModuleOptions
    compiled: CompiledModule

    @property
    def name(self) -> str:
        """The module's file."""
        return MODULE.format(self.program.program.kernel)

    def files(self) -> dict[str, str]:
        """Every file of the directory: name -> content."""
        return {
            self.name: self.module.text,
            FILE: shared_text(),
            "schedule.json": self.schedule.canonical() + "\n",
            "program.txt": text(self.program),
            MANIFEST: self.manifest(),
        }

    def manifest(self) -> str:
        """What the module was made of and for; its hash, so that an edit is known."""
        said = {
            "schema": SCHEMA,
            "kernel": self.program.program.kernel,
            "spec": self.schedule.spec,
            "machine": self.program.machine,
            "schedule": self.schedule.key,
            "module": sha256(self.module.text.encode()),
            "beside": sha256(shared_text().encode()),
            "entry": self.module.entry,
            "signature": [list(one) for one in self.signature],
            "workers": [list(one) for one in self.module.workers],
            "capability": self.asked.capability,
            "multiples": self.asked.multiples,
            "fused": self.asked.fused,
            "ctas": self.asked.ctas,
            "changes": [change.said() for change in changes(self.program)],
            "facts": [[fact.line, fact.said, fact.kernel] for fact in self.module.facts],
            "shared": self.compiled.shared,
            "local": self.compiled.local,
            "waits": self.compiled.waits,
            "triton": self.compiled.version,
        }
        return json.dumps(said, indent=1) + "\n"


def emit_gluon(
    kernel: Extracted,
    machine: Machine,
    solve: Callable[[DependenceGraph, Machine], Schedule],
    notify: OnStep = lambda step: None,
    others: Callable[[], Iterable[Schedule]] = tuple,
) -> GluonEmission:
    """The kernel as a module of Gluon: of the first lowering whose registers Triton has room for. kernel: extracted
    without conditional rescaling, which warps vote on. others: schedules that are tried, one after the other, if
    Gluon can't say the one that `solve` gives. Both are of the graph as the machine's target takes it.

    Errors: NotInGluon; NoGluon, GluonRejected, GluonDiffers, GluonSpills, GluonWaits; NoTarget,
    UnsupportedInKernel, ScheduleMismatch, WarpProgramBroken.
    """
    kernel = kernel.on(machine, integers=False)
    target_of(machine).refuse(kernel.graph)
    if machine.architecture not in ARCHITECTURES:
        raise exc.NotInGluon(
            f"no Gluon is printed for {machine.architecture}", hint=f"a machine of {', '.join(ARCHITECTURES)}"
        )
    adds = any(op.kind == "tile_reduce" for op in kernel.program.ops())
    available(ARCHITECTURES[machine.architecture], atomics=adds)
    try:
        return _of_schedule(kernel, solve(kernel.graph, machine), machine, notify)
    except (exc.NotInGluon, exc.GluonSpills) as refused:
        for schedule in others():
            try:
                return _of_schedule(kernel, schedule, machine, notify)
            except (exc.NotInGluon, exc.GluonSpills, exc.CandidateRefused):
                continue
        raise refused


def _of_schedule(kernel: Extracted, schedule: Schedule, machine: Machine, notify: OnStep) -> GluonEmission:
    """Of the first lowering of a schedule that does not spill, and whose products need not wait for one another.
    Errors: NotInGluon, GluonSpills, GluonWaits, and the others."""
    refuse_foreign(schedule, kernel.graph, machine)
    available(ARCHITECTURES[machine.architecture], PAIR if schedule.cooperation.pair else 1)
    check_or_raise(schedule, machine)
    notify("lowering to what Gluon can say")
    fewest: GluonEmission | None = None
    for program in islice(lowerings(kernel.wired, schedule, machine, kernel.order), ATTEMPTS):
        made = _emitted(kernel, program, schedule, machine, notify)
        if made.compiled.local <= MOST_LOCAL and not made.compiled.waits:
            return made
        fewest = made if fewest is None or _misses(made) < _misses(fewest) else fewest
    assert fewest is not None
    tile, compiled = fewest.program.program, fewest.compiled
    if compiled.waits:
        raise exc.GluonWaits(compiled.version, compiled.waits, file=tile.file)
    raise exc.GluonSpills(compiled.version, compiled.local, MOST_LOCAL, file=tile.file)


def _misses(made: GluonEmission) -> tuple[bool, int]:
    """What registers do not hold: products side by side, and bytes."""
    return made.compiled.waits > 0, made.compiled.local


def _emitted(
    kernel: Extracted, program: WarpProgram, schedule: Schedule, machine: Machine, notify: OnStep
) -> GluonEmission:
    """A warp program checked, printed, compiled and read back."""
    notify("running on the abstract machine")
    violations = verify(program, problem_of(kernel.specialization))
    if violations:
        tile = program.program
        said = [violation.describe() for violation in violations]
        raise exc.WarpProgramBroken(tile.kernel, said, file=tile.file, line=violations[0].line)
    module = print_gluon(program, kernel.specialization, schedule)
    notify("compiling with Triton")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MODULE.format(program.program.kernel)
        path.write_text(module.text, encoding="utf-8")
        signature = signature_of(module, program, path)
        asked = asked_of(machine, kernel, program)
        compiled = compile_module(path, module.entry, signature, asked)
    notify("reading back what Triton made of it")
    if found := differences(module.text, compiled.ptx, module.facts):
        said = [one.describe(MODULE.format(program.program.kernel)) for one in found]
        raise exc.GluonDiffers(compiled.version, said, file=program.program.file, line=found[0].kernel)
    return GluonEmission(schedule, program, module, signature, asked, compiled)


def lowerings(wired: Wired, schedule: Schedule, machine: Machine, order: Order = "static") -> Iterator[WarpProgram]:
    """The warp programs of the candidates that fit and that Gluon can say, the best predicted first; each whole, and
    with what follows its loops in parts of columns. Errors: NotInGluon if there is none, ScheduleMismatch,
    UnsupportedInKernel, SharedMemoryFull."""
    refused: exc.TwillError | None = None
    known: list[WarpProgram] = []
    for candidate in candidates(wired.program, schedule, machine):
        for registers in hopper.PARTS:
            try:
                made = _lowered(wired, schedule, machine, candidate, registers, order)
            except (exc.NotInGluon, exc.CandidateRefused) as error:
                refused = refused if isinstance(refused, exc.NotInGluon) else error
                continue
            if made is not None and made not in known:
                known.append(made)
                yield made
    if not known:
        assert refused is not None, "a candidate without ping-pong is refused by an error only"
        raise refused


def _lowered(
    wired: Wired, schedule: Schedule, machine: Machine, candidate: LoweringCandidate, registers: int, order: Order
) -> WarpProgram | None:
    ctas = PAIR if schedule.cooperation.pair else 1
    candidate = replace(candidate, budgets=True)  # a module says what registers a partition has
    made = streams(wired, schedule, machine, candidate, "dynamic" if order == "dynamic" else "static", ctas)
    if isinstance(made, CandidateRefusal):
        if made.error is not None:
            raise made.error
        return None
    wanted = min(registers or made.choices.accumulator_registers, made.choices.accumulator_registers)
    choices = replace(made.choices, product_registers=registers, accumulator_registers=wanted)
    passed = decided(run_passes(made.program, choices, without=UNSAID))
    return sayable(with_barriers(passed, machine), machine.emitting.named_barriers.whole)


def signature_of(module: GluonModule, program: WarpProgram, path: Path) -> tuple[tuple[str, str], ...]:
    """Triton's types of the kernel's parameters. path: of the module, whose layouts are in those of descriptors."""
    layouts = vars(load(path))
    descriptors = {one.name: one for one in module.descriptors}
    elements = {argument.name: argument.type.element for argument in program.program.arguments}
    made: list[tuple[str, str]] = []
    for name in module.parameters:
        if name in descriptors:
            one = descriptors[name]
            kind = descriptor_type(program.maps[one.map].element, one.block, layouts[one.layout].value)
        else:
            element = elements.get(name, COUNTED if name == COUNTER else LAUNCH)
            kind = scalar_type(f"*{element.partition(':')[2]}" if ":" in element else element)
        made.append((name, kind))
    return tuple(made)


def asked_of(machine: Machine, kernel: Extracted, program: WarpProgram) -> ModuleOptions:
    """How the module of a kernel is compiled for a machine."""
    multiples = {a.name: a.divisibility for a in kernel.program.arguments if a.divisibility > 1}
    fused = kernel.program.fp_fusion and not kernel.program.strict
    ctas = program.cluster.ctas if program.cluster is not None else 1
    return ModuleOptions(ARCHITECTURES[machine.architecture], multiples, fused, ctas)


def compile_module(
    path: Path, entry: str, signature: Sequence[tuple[str, str]], asked: ModuleOptions
) -> CompiledModule:
    """The kernel of a module, compiled. Errors: NoGluon, GluonRejected."""
    function = getattr(load(path), entry)
    return compile_kernel(function, dict(signature), asked.multiples, asked.capability, asked.fused, asked.ctas)
