"""Which examples can be said in Gluon, and why the others can't: printed, with line counts, or refused.

Schedules are the kept ones for the h100 and the heuristic's for the b200; where one can't be said, those of 1, 2 and 4
row blocks by the heuristic are tried, as `twill emit` tries others. Nothing is compiled.

python -m tests.gluon_sweep h100|b200
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from tests import blackwell
from tests.conftest import ROOT
from tests.golden_schedules import BLACKWELL_ALONE, Example, examples, schedule
from tests.kernels import H100
from twill import exc
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import lowerings
from twill.codegen.print.gluon.module import print_gluon
from twill.codegen.print.gluon.sayable import refuse_at_once
from twill.codegen.targets.base import target_of
from twill.kernel.specialization import list_specializations
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed

BLOCKS = (1, 2, 4)


def every(machine: Machine) -> tuple[Example, ...]:
    """The examples of a machine."""
    files = [f"examples/{name}.py" for name in BLACKWELL_ALONE] if machine.name == "b200" else []
    return (*examples(), *(Example(file, spec) for file in files for spec in list_specializations(file)))


def schedules(example: Example, kernel: Extracted, machine: Machine) -> Iterator[Schedule]:
    """Those that are tried."""
    if machine.name == "h100":
        yield schedule(example)
    for blocks in (None, *BLOCKS):
        options = SolveOptions.model_validate({"fuse": False, "strategy": "heuristic", "blocks": blocks})
        try:
            yield solve(kernel.graph, machine, options)
        except exc.TwillError:
            continue


def said(example: Example, machine: Machine) -> str:
    """What becomes of an example, in words."""
    refused: exc.TwillError | None = None
    try:
        kernel = extract(example.file, example.spec, (), (), Allowed(conditional=False)).on(machine, integers=False)
        target_of(machine).refuse(kernel.graph)
        refuse_at_once(kernel.program, machine.architecture)
    except exc.TwillError as error:
        return f"refused at once: {error.message}"
    for number, found in enumerate(schedules(example, kernel, machine)):
        try:
            program = next(lowerings(kernel.wired, found, machine))
            text = print_gluon(program, kernel.specialization, found).text
        except exc.TwillError as error:
            refused = refused or error
            continue
        return f"{len(text.splitlines())} lines, I = {found.ii}{', with another schedule' if number else ''}"
    return f"refused: {refused.message if refused is not None else 'no schedule'}"


def main(words: Sequence[str]) -> int:
    """See the top of this file."""
    os.chdir(ROOT)
    machine = {"h100": H100, "b200": blackwell.machine()}[words[0]]
    for example in every(machine):
        print(f"{example.name}: {said(example, machine)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
