"""`twill solve`, `twill extract` and `twill explain`: what begins with a kernel file."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from twill.cli import codes

if TYPE_CHECKING:
    from twill.cli.output import Outputs
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule
    from twill.solve.pipeline import SolveOptions
    from twill.tile.program import TileProgram


SOLVING = ("normalize", "budget", "resource_limit", "seed", "blocks", "ii", "strategy", "solver")
"""Arguments that are options of a solve under the same name."""


def solve(arguments: Namespace) -> int:
    """The schedule, to every place it was asked for.

    A budget that ran out with a schedule at hand publishes that one too, as not proven, and
    still ends with the error.
    """
    from twill.cli import store_lookup
    from twill.cli.output import Outputs
    from twill.exc import BudgetExhausted
    from twill.machine.file import load_machine

    outputs = Outputs(html=arguments.html, trace=arguments.trace, out=arguments.out, certificate=arguments.certify)
    outputs.refuse_unwritable()
    machine = load_machine(arguments.machine)
    if arguments.top is not None:
        return solve_top(machine, outputs, arguments)
    try:
        with store_lookup.opened(arguments) as store:
            program, graph = kernel_of(arguments, machine)
            options = options_of(arguments)
            schedule = store_lookup.answer(store, graph, machine, options, store_lookup.say)
            if schedule is None:
                say_unlowerable(program, machine)
                schedule = run(graph, machine, options, processes_of(arguments))
                store_lookup.keep(store, schedule, graph, machine, options, store_lookup.say)
    except BudgetExhausted as ended:
        from twill.schedule.document import Schedule

        if isinstance(ended.schedule, Schedule):
            publish(ended.schedule, outputs, arguments, machine)
        raise
    publish(schedule, outputs, arguments, machine)
    return codes.SOLVED


def solve_top(machine: Machine, outputs: Outputs, arguments: Namespace) -> int:
    """Up to `--top` optimal schedules: one document a line, or a summary of each; --out has a folder for each."""
    from twill.cli.progress import live_progress
    from twill.show.text import print_schedule
    from twill.solve import pipeline

    with live_progress() as notify:
        top = pipeline.solve_top(graph_of(arguments, machine), machine, arguments.top, options_of(arguments), notify)
    for number, schedule in enumerate(top.schedules, 1):
        outputs.numbered(number).write(schedule)
        if arguments.json:
            print(schedule.canonical())
        else:
            print_schedule(schedule)
    if not arguments.json:
        others = "there are no others" if top.all else "there may be others"
        print(f"{len(top.schedules)} schedules are as good as each other; {others}")
    return codes.SOLVED


def extract(arguments: Namespace) -> int:
    """The dependence graph: as text, as the document that a client sends to a service, or for other programs."""
    graph = graph_of(arguments)
    if arguments.format == "text":
        from twill.graph.graph_text import graph_text

        sys.stdout.write(graph_text(graph))
    else:
        from twill.graph.networks import FORMATS

        sys.stdout.write(FORMATS[arguments.format](graph))
    return codes.SOLVED


def explain(arguments: Namespace) -> int:
    """In words, which rules exclude what was asked for (or anything better than the optimum)."""
    from twill.machine.file import load_machine

    machine = load_machine(arguments.machine)
    graph = graph_of(arguments, machine)
    from twill.solve.explain import ExplainLimits
    from twill.solve.explain import explain as explain_kernel

    asked = ExplainLimits(copies=arguments.copies, groups=arguments.groups)
    print(explain_kernel(graph, machine, options_of(arguments), asked))
    return codes.SOLVED


def graph_of(arguments: Namespace, machine: Machine | None = None) -> DependenceGraph:
    """The dependence graph of the kernel that the arguments name, as a machine takes it (None: as any may)."""
    return kernel_of(arguments, machine)[1]


def kernel_of(arguments: Namespace, machine: Machine | None = None) -> tuple[TileProgram, DependenceGraph]:
    """Its tile program, too; where the machine's target has no products of its tiles, with those that `twill emit`
    takes instead, if the sidecar has such, which is said."""
    from twill.cli.target_tiles import with_tiles_of
    from twill.codegen.targets.programs import graph_on, program_on
    from twill.exc import NoTarget, UnsupportedInKernel
    from twill.kernel.specialization import resolve

    program, graph = read_kernel(arguments)
    say_promises(program)
    say_unemittable(program)
    if machine is None:
        return program, graph

    def on_machine(asked: Namespace) -> tuple[TileProgram, DependenceGraph]:
        return taken(*read_kernel(asked))

    def taken(one: TileProgram, its: DependenceGraph) -> tuple[TileProgram, DependenceGraph]:
        return program_on(one, machine), graph_on(one, its, machine)

    own = taken(program, graph)
    given = resolve(arguments.kernel, spec=arguments.spec, sig=tuple(arguments.sig), const=tuple(arguments.const))
    try:
        return with_tiles_of(machine, given, arguments, own, on_machine, lambda kernel: kernel[1])[0]
    except (NoTarget, UnsupportedInKernel):  # schedules are for any machine and any tiles
        return own


def read_kernel(arguments: Namespace) -> tuple[TileProgram, DependenceGraph]:
    """As no machine matters."""
    from twill.graph.extract import extract as extract_kernel
    from twill.tile.rewrite.pipeline import Allowed

    sig, const = tuple(arguments.sig), tuple(arguments.const)
    return extract_kernel(
        arguments.kernel, arguments.spec, sig, const, allowed=Allowed(arguments.rewrite), strict=arguments.strict_math
    )


def say_unemittable(program: TileProgram) -> None:
    """Why no kernel can be emitted for what is solved, on the error stream, before anything is solved."""
    from twill.cli.complaint import complain
    from twill.codegen.emittable import refuse_unemittable
    from twill.exc import UnsupportedInKernel

    try:
        refuse_unemittable(program)
    except UnsupportedInKernel as error:
        complain(f"note: it can be solved but not emitted: {error.describe()}")


def say_unlowerable(program: TileProgram, machine: Machine) -> None:
    """The same, of what code cannot be made of for this machine; of a machine that none is made for, nothing."""
    from twill.cli.complaint import complain
    from twill.codegen.lowerable import refuse_unlowerable
    from twill.exc import Infeasible, NoTarget, UnsupportedInKernel
    from twill.graph.build import wire

    try:
        refuse_unlowerable(wire(program), machine)
    except (NoTarget, Infeasible):  # the solve says why there is no schedule
        return
    except UnsupportedInKernel as error:
        complain(f"note: it can be solved but not emitted: {error.describe()}")


def say_promises(program: TileProgram) -> None:
    """Which promises of divisibility are missing, on the error stream: they cost more than any schedule can win."""
    from twill.cli.complaint import complain
    from twill.tile.access.promises import missing_promises

    for line, what in missing_promises(program):
        complain(f'note: {program.file}:{line}: {what}; ":16" in a type promises it (docs/sidecars.md)')


def options_of(arguments: Namespace) -> SolveOptions:
    """The solve's options; pins stay text, the solver reads them."""
    from twill.solve.pipeline import SolveOptions

    given = {name: getattr(arguments, name) for name in SOLVING}
    whole = arguments.whole_exponentials or getattr(arguments, "strict_math", False)
    whole = whole or getattr(arguments, "language", "cuda") == "gluon"  # which has functions of whole tiles
    paired = (arguments.cluster or 1) if not getattr(arguments, "no_pair", False) else 1
    given |= {"whole_exponentials": whole, "cluster": paired}
    return SolveOptions(pins=tuple(arguments.pin), margin=not arguments.no_margin, **given)


def processes_of(arguments: Namespace) -> int:
    """Processes that may work at a command: one, unless it may copy itself."""
    return int(getattr(arguments, "processes", 1))


def run(graph: DependenceGraph, machine: Machine, options: SolveOptions, processes: int = 1) -> Schedule:
    """Solve, with a live line on the error stream if somebody watches it. processes: that may work at it."""
    from twill.cli.progress import live_progress
    from twill.solve import pipeline

    with live_progress() as notify:
        return pipeline.solve(graph, machine, options, notify, processes)


def publish(schedule: Schedule, outputs: Outputs, arguments: Namespace, machine: Machine) -> None:
    """Write the files, then print: a reader of standard output finds the files there."""
    outputs.write(schedule)
    if outputs.certificate is not None:
        certify(schedule, machine, outputs)
    if arguments.json:
        print(schedule.canonical())
        return
    from twill.show.text import print_schedule

    print_schedule(schedule)


def certify(schedule: Schedule, machine: Machine, outputs: Outputs) -> None:
    """Prove what the schedule claims and write it all; what is being proven goes to a terminal's error stream."""
    from twill.certify.certify import certify as prove_claims
    from twill.cli.complaint import complain

    certified = prove_claims(schedule, machine, complain if sys.stderr.isatty() else None)
    outputs.write_certificate(schedule, certified)
