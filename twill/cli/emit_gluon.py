"""`twill emit --as gluon`: the best schedule that Gluon can say, and what it costs beside the CUDA form's."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes

if TYPE_CHECKING:
    from twill.codegen.emission import Extracted
    from twill.codegen.gluon import GluonEmission
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule

BLOCKS = (1, 2, 4)  # row blocks that are as high as one another: powers of two


def emit_as_gluon(kernel: Extracted, machine: Machine, arguments: Namespace) -> int:
    """Write the kernel as a module of Gluon to --out; with --ir print the warp program that it says. Errors: NotInGluon
    before anything is solved, where no schedule could be said."""
    from twill.cli.complaint import say_more
    from twill.cli.emit import given, solved
    from twill.cli.emit_pairs import in_pairs
    from twill.cli.output import folder, write_all
    from twill.codegen.gluon import emit_gluon
    from twill.codegen.gluon_sharing import with_shared_tiles
    from twill.codegen.numerics import changes
    from twill.codegen.print.gluon.sayable import refuse_at_once
    from twill.codegen.targets.base import target_of
    from twill.codegen.warp.text import text

    kernel = kernel.on(machine, integers=False)
    refuse_at_once(kernel.program, machine.architecture)
    refuse_clusters(kernel.graph, machine, arguments)

    def make(asked: Namespace) -> GluonEmission:
        def solve(graph: DependenceGraph, on: Machine) -> Schedule:
            if asked.schedule is not None:
                return given(asked)
            found = solved(graph, on, asked)
            if asked.blocks is not None or asked.pin:
                return found

            def again(blocks: int, pins: tuple[str, ...]) -> Schedule:
                return solved(graph, on, Namespace(**{**vars(asked), "blocks": blocks, "pin": list(pins)}))

            return with_shared_tiles(found, on, again)

        return emit_gluon(kernel, machine, solve, say_more, lambda: others(kernel.graph, machine, asked))

    emission = make(arguments) if arguments.schedule is not None else in_pairs(kernel, machine, arguments, make)
    if arguments.execute:
        from twill.trial.gluon import checked

        say_more("executing the PTX on the CPU")
        print(checked(emission, kernel.specialization))
    if arguments.out is not None:
        directory = Path(arguments.out)
        with folder(directory):
            write_all({directory / name: content for name, content in emission.files().items()})
    if arguments.ir:
        sys.stdout.write(text(emission.program))
        return codes.SOLVED
    lines = emission.module.text.count("\n")
    print(
        f"{kernel.program.kernel} ({emission.schedule.spec}) for {machine.name}, I = {emission.schedule.ii}, as Gluon"
        f"{price(emission.schedule, machine, arguments)}"
    )
    print(
        f"  {emission.name}: {lines} lines; Triton {emission.compiled.version} makes a cubin of it"
        f" that says the same, {emission.compiled.local} bytes a thread in local memory"
    )
    for change in changes(emission.program):
        print(f"  changed: {change.said()}")
    if unproven := target_of(machine).unproven:
        print(f"  {unproven}")
    return codes.SOLVED


def refuse_clusters(graph: DependenceGraph, machine: Machine, arguments: Namespace) -> None:
    """Raises NotInGluon where two CTAs were to load tiles together that each multiplies alone; NoGluon where they were
    to multiply together and the installed Triton can't have that."""
    from twill import exc
    from twill.codegen.compile.gluon.triton import available
    from twill.codegen.gluon import ARCHITECTURES, PAIR
    from twill.graph.pairs import may_pair
    from twill.solve.regions import main_region

    if (arguments.cluster or 1) == 1:
        return
    if arguments.no_pair or not may_pair(main_region(graph), machine):
        what = "tiles that two CTAs load together and multiply alone have no printer for Gluon"
        raise exc.NotInGluon(what, hint="emit without `--cluster`")
    available(ARCHITECTURES[machine.architecture], PAIR)


def others(graph: DependenceGraph, machine: Machine, arguments: Namespace) -> Iterator[Schedule]:
    """Schedules of other numbers of row blocks, the smallest I first, if nobody said which; none where one is given."""
    from twill import exc
    from twill.cli.emit import solved

    if arguments.schedule is not None or arguments.blocks is not None:
        return
    found: list[Schedule] = []
    for blocks in BLOCKS:
        try:
            found.append(solved(graph, machine, Namespace(**{**vars(arguments), "blocks": blocks})))
        except (exc.Infeasible, exc.BudgetExhausted):
            continue
    yield from sorted(found, key=lambda schedule: schedule.ii)


def price(schedule: Schedule, machine: Machine, arguments: Namespace) -> str:
    """The CUDA form's I, whose warps may vote and whose row blocks may be uneven; "" where a schedule was given."""
    from twill.cli.emit import extracted_as, solved
    from twill.cli.emit_pairs import in_pairs

    if arguments.schedule is not None:
        return ""
    kernel = extracted_as(arguments).on(machine, integers=False)
    best = in_pairs(kernel, machine, arguments, lambda asked: solved(kernel.graph, machine, asked))
    if best.ii == schedule.ii:
        return "; the CUDA form has the same"
    return f"; the CUDA form has I = {best.ii} ({100 * (schedule.ii - best.ii) / best.ii:+.0f} %)"
