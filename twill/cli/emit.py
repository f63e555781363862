"""`twill emit`: from a kernel file to a directory with everything that a launch needs."""

from __future__ import annotations

import argparse
import math
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from twill.cli import codes
from twill.cli.complaint import say_more
from twill.cli.emit_pairs import CTAS, first_asked, in_pairs
from twill.cli.emit_why import competed, promised, tried

Made = TypeVar("Made")

if TYPE_CHECKING:
    from collections.abc import Callable

    from twill.cli.solves import Solves
    from twill.codegen.emit import Emission
    from twill.codegen.extraction import Extracted
    from twill.codegen.lower.candidates import Attempt, Recorder
    from twill.codegen.passes.pipeline import Pass
    from twill.codegen.warp.program import WarpProgram
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule
    from twill.solve.shared_budget import SharedBudget
    from twill.tile.odd_sizes import Known
    from twill.tile.rewrite.pipeline import Rewrite

EMISSION = 4  # budgets that solves and builds may take together, before the last refusal is the answer


def emit(arguments: Namespace) -> int:
    """Write the emitted kernel to --out; with --ir print its warp program, alone if there is no --out; with --from-ir
    the CUDA of a warp program that is given. With --execute its machine code is run on the CPU first, and nothing is
    written if that goes wrong. With --why print what was chosen among; without --out or --execute of lowering alone, of
    which nothing is compiled."""
    from twill import exc
    from twill.cli.output import refuse_directory
    from twill.cli.solve import processes_of
    from twill.cli.solves import Solves
    from twill.codegen.targets.base import target_of
    from twill.machine.file import load_machine

    shown = arguments.ir or arguments.why or arguments.dump_after is not None
    more = arguments.out is not None or shown or arguments.execute or arguments.language != "cuda"
    if arguments.from_ir is not None and more:
        raise exc.PrintedFromIr()
    if arguments.out is None and not shown and not arguments.execute and arguments.from_ir is None:
        raise exc.NothingToEmit()
    if arguments.dump_after is not None:
        refuse_unknown(arguments.dump_after)
    if arguments.out is not None:
        refuse_directory(Path(arguments.out))
    machine = load_machine(arguments.machine)
    target_of(machine)
    with Solves(arguments.budget, processes_of(arguments) if solves_first(arguments) else 1) as solve:
        return emit_on(machine, arguments, solve)


def solves_first(arguments: Namespace) -> bool:
    """Whether something is solved for sure, as soon as the kernel is read."""
    emits = arguments.out is not None or arguments.execute
    otherwise = (arguments.schedule, arguments.from_ir, arguments.dump_after)
    return (
        emits and arguments.language == "cuda" and not arguments.tuned and not any(one is not None for one in otherwise)
    )


def emit_on(machine: Machine, arguments: Namespace, solve: Solves) -> int:
    """What `emit` does for a machine that code is made for. solve: for what is solved first."""
    from twill import exc
    from twill.cli.solve import say_promises
    from twill.cli.target_tiles import fitting
    from twill.codegen.targets.base import target_of
    from twill.tile.text import program_text

    known: Known = {}
    kernel = extracted_as(arguments, conditional=arguments.language == "cuda", known=known)
    if arguments.dump_after in kernel.behind:
        sys.stdout.write(program_text(kernel.behind[arguments.dump_after]))
        return codes.SOLVED
    kernel, arguments = fitting(kernel, machine, arguments, known)
    say_promises(kernel.program)
    if arguments.from_ir is not None:
        sys.stdout.write(printed(kernel, machine, Path(arguments.from_ir)))
        return codes.SOLVED
    if arguments.tuned:
        kernel, arguments = retiled(kernel, machine, arguments)
    if arguments.language == "gluon":
        from twill.cli.emit_gluon import emit_as_gluon

        return emit_as_gluon(kernel, machine, arguments)
    if arguments.dump_after is not None or (arguments.out is None and not arguments.execute):
        sys.stdout.write(lowered(kernel.on(machine), machine, arguments))
        return codes.SOLVED
    attempts: list[Attempt] = []
    try:
        emission = emitted(kernel, machine, arguments, attempts.append, solve)
    except exc.CandidateRefused:
        if arguments.why:
            print("\n".join(tried(attempts)), file=sys.stderr)
        raise
    executed = (run_on_cpu(emission, kernel),) if arguments.execute else ()
    if arguments.out is not None:
        write(emission, Path(arguments.out))
    if arguments.ir:
        sys.stdout.write(emission.files()["program.txt"])  # type: ignore[arg-type]
    if arguments.why:
        print("\n".join((*promised(kernel, machine), *competed(emission.schedule), *tried(attempts))))
    if not arguments.ir and not arguments.why:
        changes = (f"changed: {change.said()}" for change in emission.manifest.changes)
        unproven = target_of(machine).unproven
        facts = emission.facts
        if facts.spill_stores:
            spilled = f"{facts.spill_stores} bytes of registers stored, {facts.spill_loads} loaded by each thread"
            executed = (*executed, f"spills: {spilled}")
        said = (*kernel.rescale_report.said(), *changes, *executed, *([unproven] if unproven else []))
        print("\n".join((summary(emission, arguments.out), *(f"  {line}" for line in said))))
    return codes.SOLVED


def printed(kernel: Extracted, machine: Machine, path: Path) -> str:
    """The CUDA of the warp program in a file, once the verifier and the abstract machine have found it right. Errors:
    ProgramNotReadable, WarpTextSyntax, ForeignWarpProgram, WrongWarpProgram, UnknownProblem, those of `print_cuda`."""
    from twill import exc
    from twill.codegen.print.cuda.printer import print_cuda
    from twill.codegen.verify.abstract_machine import verify
    from twill.codegen.warp.parse import parse
    from twill.codegen.warp.verifier import faults
    from twill.kernel.specialization import problem_of

    try:
        program = parse(path.read_text(encoding="utf-8"), kernel.program)
    except (OSError, UnicodeDecodeError) as error:
        raise exc.ProgramNotReadable(str(path), error) from None
    except exc.WarpTextSyntax as error:
        error.file = str(path)
        raise
    if program.machine != machine.name:
        raise exc.ForeignWarpProgram(program.machine, machine.name, file=str(path))
    found = faults(program) or [wrong.describe() for wrong in verify(program, problem_of(kernel.specialization))]
    if found:
        raise exc.WrongWarpProgram(found, file=str(path))
    return print_cuda(program, machine).text


def run_on_cpu(emission: Emission, kernel: Extracted) -> str:
    """The emitted machine code runs as its tile program says, for one small launch, and for one with awkward data if
    the kernel tells such data apart: in words. Errors: ExecutionDiffers, UnsupportedPtx, UnknownProblem."""
    from twill.kernel.specialization import problem_of
    from twill.trial.execute import checked_with_awkward_data

    say_more("executing the PTX on the CPU")
    executed = checked_with_awkward_data(emission, problem_of(kernel.specialization))
    sizes = "; ".join(one.launch.text or "the only size" for one in executed)
    return f"executed on the CPU ({sizes}): equal to the tile program, nothing found"


def emitted(
    kernel: Extracted,
    machine: Machine,
    arguments: Namespace,
    record: Recorder = lambda attempt: None,
    solve: Solves | None = None,
) -> Emission:
    """Emitted with the schedule that was given, or solved now; in pairs of CTAs if nobody said and they have less I.
    The first solve begins at once, and what follows it is loaded meanwhile. record: gets what became of each
    candidate. solve: is made ready for that."""
    from twill.cli.solves import Solves
    from twill.forked import processors

    if arguments.schedule is not None:
        return emitted_scheduled(kernel, machine, arguments, record)
    limit = math.inf if arguments.budget is None else EMISSION * arguments.budget
    with solve or Solves(arguments.budget, 1) as solving:
        solving.begin(first_asked(kernel, machine, arguments))
        from twill.codegen.compile.nvrtc import load_compiler
        from twill.codegen.emission import emit_solved, with_slow_builds
        from twill.codegen.room import PatientSolver

        load_compiler()

        def make(asked: Namespace) -> Emission:
            patient = PatientSolver(lambda graph, on: solving(graph, on, asked), limit)
            fixed = asked.ii is not None or bool(asked.pin)
            return emit_solved(kernel, machine, patient, say_more, asked.cluster, record, processors(), fixed)

        def solved_and_made() -> Emission:
            return with_registers(
                kernel, machine, arguments, lambda asked: in_pairs(kernel, machine, asked, make, solving)
            )

        return with_slow_builds(solved_and_made, say_note, processors())


def emitted_scheduled(kernel: Extracted, machine: Machine, arguments: Namespace, record: Recorder) -> Emission:
    """Emitted with the schedule that was given."""
    from twill.codegen.emission import emit_scheduled, with_slow_builds
    from twill.forked import processors

    schedule = given(arguments)
    cluster = arguments.cluster or (CTAS if schedule.cooperation.pair else 1)

    def scheduled() -> Emission:
        return emit_scheduled(kernel, machine, schedule, say_more, cluster, record, processors())

    return with_slow_builds(scheduled, say_note, processors())


def with_registers(
    kernel: Extracted, machine: Machine, arguments: Namespace, make: Callable[[Namespace], Made]
) -> Made:
    """What `make` makes as was asked for; where the build is refused, without polynomials for exponentials, which take
    registers."""
    from twill import exc
    from twill.graph.exponentials import has_polynomial, splittable

    try:
        return make(arguments)
    except exc.BuildRejected as refused:
        nodes = (node for region in kernel.graph.regions for node in region.nodes)
        if arguments.whole_exponentials or not has_polynomial(machine) or not any(map(splittable, nodes)):
            raise
        say_more(f"{refused.message}: solving again with whole exponentials")
    return make(Namespace(**{**vars(arguments), "whole_exponentials": True}))


def retiled(kernel: Extracted, machine: Machine, arguments: Namespace) -> tuple[Extracted, Namespace]:
    """The kernel with the tiles that a tuning found best; its schedule and clusters are given from now on. Errors:
    NotTuned."""
    from twill.cli import tune_store

    found = tune_store.found(kernel, machine, arguments)
    sig, const = (*arguments.sig, *found.won.sig), (*arguments.const, *found.won.const)
    cluster = max(arguments.cluster or 1, found.won.cluster)
    won = {"sig": sig, "const": const, "schedule": found.schedule, "cluster": cluster, "split": found.won.split}
    again = Namespace(**{**vars(arguments), **won})
    return extracted_as(again), again


def extracted_as(arguments: Namespace, *, conditional: bool = True, known: Known | None = None) -> Extracted:
    """The kernel that the arguments name, rewritten as they allow. conditional: whether its warps can vote. known:
    programs that were read before (`twill.tile.odd_sizes`)."""
    from twill.cli.solve import processes_of
    from twill.codegen.extraction import extract
    from twill.tile.rewrite.pipeline import Allowed

    return extract(
        arguments.kernel,
        arguments.spec,
        tuple(arguments.sig),
        tuple(arguments.const),
        Allowed(arguments.rewrite, conditional=conditional and not arguments.no_conditional_rescale),
        arguments.order,
        strict=arguments.strict_math,
        fp_fusion=not arguments.no_fp_fusion,
        split=arguments.split,
        known=known,
        processes=processes_of(arguments),
    )


def lowered(kernel: Extracted, machine: Machine, arguments: Namespace) -> str:
    """The warp program's text, behind the pass of --dump-after or all of them, or with --why what was chosen among;
    nothing is compiled, so no compiler is needed."""
    from twill.codegen.emission import refuse_foreign
    from twill.codegen.lowerable import refuse_unlowerable
    from twill.codegen.lowering import lower
    from twill.codegen.warp.text import text

    seen: dict[str, WarpProgram] = {}
    attempts: list[Attempt] = []

    def make(asked: Namespace, schedule: Schedule | None = None) -> tuple[Schedule, WarpProgram]:
        found = schedule or solved(kernel.graph, machine, asked)
        made = lower(
            kernel.wired, found, machine, order=kernel.order, cluster=asked.cluster or 1,
            watch=seen.__setitem__, record=attempts.append,
        )  # fmt: skip
        return found, made

    if arguments.schedule is None:
        refuse_unlowerable(kernel.wired, machine)
        schedule, made = in_pairs(kernel, machine, arguments, make)
    else:
        schedule = given(arguments)
        refuse_foreign(schedule, kernel.graph, machine)
        schedule, made = make(arguments, schedule)
    shown = text(made if arguments.dump_after is None else seen[arguments.dump_after])
    why = (*promised(kernel, machine), *competed(schedule), *tried(attempts), "") if arguments.why else ()
    return (shown if arguments.ir or arguments.dump_after is not None else "") + "\n".join(why)


def refuse_unknown(name: str) -> None:
    """Raises UnknownPass unless a program can be looked at behind `name`."""
    from twill import exc
    from twill.codegen.passes import pipeline as passes
    from twill.tile.rewrite import pipeline as rewrites

    steps = (*rewrites.PIPELINE, *passes.PIPELINE)
    known = (rewrites.EXTRACTED, passes.LOWERING, *(step.name for step in steps))
    if name not in known:
        raise exc.UnknownPass(name, known)


class ListPasses(argparse.Action):
    """Prints every rewrite of tile programs and pass over warp programs, in order, and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *given: object, **named: object) -> None:
        """As argparse calls it."""
        from twill.codegen.passes import pipeline as passes
        from twill.tile.rewrite import pipeline as rewrites

        listed: tuple[tuple[str, str, tuple[Rewrite | Pass, ...]], ...] = (
            ("tile programs", rewrites.EXTRACTED, rewrites.PIPELINE),
            ("warp programs", passes.LOWERING, passes.PIPELINE),
        )
        for what, first, steps in listed:
            print(f"passes over {what}, in order, behind `{first}`:")
            for step in steps:
                print(f"  {step.name}\n    needs: {step.needs}\n    gives: {step.promises}")
        parser.exit()


def given(arguments: Namespace) -> Schedule:
    """The schedule of --schedule, or of --tuned."""
    from twill.schedule.document import Schedule
    from twill.schedule.file import load_schedule

    if isinstance(arguments.schedule, Schedule):
        return arguments.schedule
    return load_schedule(Path(arguments.schedule))


def solved(
    graph: DependenceGraph, machine: Machine, arguments: Namespace, budget: SharedBudget | None = None
) -> Schedule:
    """The best schedule that the budget allows, proven or not: a kernel of either is right. budget: what is left of it
    for this solve and others (None: all of it)."""
    from twill.cli import solve, store_lookup
    from twill.exc import BudgetExhausted
    from twill.solve.shared_budget import SharedBudget, for_emission

    options = for_emission(graph, solve.options_of(arguments))
    with store_lookup.opened(arguments) as store:
        try:
            schedule = store_lookup.answer(store, graph, machine, options, store_lookup.say)
            if schedule is None:
                with (budget or SharedBudget(options.budget)).solving(options) as asked:
                    schedule = solve.run(graph, machine, asked, solve.processes_of(arguments))
                store_lookup.keep(store, schedule, graph, machine, options, store_lookup.say)
            return schedule
        except BudgetExhausted as ended:
            from twill.solve.pipeline import best_known

            schedule = best_known(ended)
            store_lookup.say(f"{ended.message}; that schedule is emitted")
            return schedule


def write(emission: Emission, directory: Path) -> None:
    """All files, whole or not at all; the manifest comes last, and without it nothing is launched."""
    from twill.cli.output import folder, write_all

    with folder(directory):
        write_all({directory / name: content for name, content in emission.files().items()})


def summary(emission: Emission, directory: str | None) -> str:
    """A few lines for people."""
    facts, schedule, manifest = emission.facts, emission.schedule, emission.manifest
    proven = "optimal" if schedule.certificate.optimal else "not proven optimal"
    groups = ", ".join(f"{group.role} ({group.registers})" for group in emission.program.groups)
    multiplies = "; ".join(
        " + ".join(f"{count} {shape}" for shape, count in sorted(counts.items())) for counts in facts.mma_loops
    )
    return "\n".join(
        (
            f"{manifest.kernel} ({manifest.spec}) for {manifest.machine}, I = {schedule.ii}, {proven}",
            f"  {manifest.threads} threads, {manifest.shared} bytes of shared memory, registers: {groups}",
            f"  multiplies of a loop: {multiplies or 'none'}",
            *((f"  {directory}: {', '.join(emission.files())}",) if directory is not None else ()),
        )
    )


def say_note(text: str) -> None:
    """What somebody should know of what was made."""
    print(f"note: {text}", file=sys.stderr, flush=True)
