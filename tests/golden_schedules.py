"""Schedules of the examples that are kept, so that tests of what comes after the solver need none.

`python -m tests.golden_schedules` solves what is missing or was solved for another kernel or machine; takes minutes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conftest import GOLDEN, ROOT
from tests.run_cache import once
from twill import exc
from twill.codegen.emission import Extracted, emit_solved, extract, refuse_foreign
from twill.codegen.emit import Emission, build_kernel
from twill.codegen.lowering import lower
from twill.codegen.warp.program import WarpProgram
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import list_specializations
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

MACHINE = "h100"
BUDGET = 120.0  # seconds of each solve
DEFAULT = SolveOptions(budget=BUDGET, fuse=False)


@dataclass(frozen=True)
class Example:
    """A specialization of an example. file: relative to the repository."""

    file: str
    spec: str

    @property
    def name(self) -> str:
        """gemm_bf16."""
        return f"{Path(self.file).stem}_{self.spec}"

    @property
    def path(self) -> Path:
        """Where its schedule is kept."""
        return GOLDEN / "schedules" / f"{self.name}.json"


BLACKWELL_ALONE = ("gemm_mxfp8", "gemm_nvfp4")
"""Examples with products that Hopper does not have."""


@cache
def examples() -> tuple[Example, ...]:
    """All of them that Hopper has."""
    paths = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem not in BLACKWELL_ALONE]
    return tuple(Example(f"examples/{path.name}", spec) for path in paths for spec in list_specializations(str(path)))


@cache
def machine() -> Machine:
    """The machine that the schedules are for."""
    return load_machine(MACHINE)


@cache
def kernel(example: Example) -> Extracted:
    """The example, read. The working directory must be the repository."""
    return once(f"read-{example.name}", lambda: extract(example.file, example.spec))


@cache
def schedule(example: Example) -> Schedule:
    """The kept schedule. Errors: ScheduleMismatch if it is not for the kernel and machine as they are."""
    found = load_schedule(example.path)
    refuse_foreign(found, kernel(example).graph, machine())
    return found


@cache
def lowered(example: Example) -> WarpProgram:
    """Its warp program."""
    return lower(kernel(example).program, schedule(example), machine())


@cache
def compiled(example: Example) -> Emission:
    """The example, lowered and compiled; neither checked nor executed."""
    return built(example, lowered(example), schedule(example), machine())


def built(example: Example, program: WarpProgram, found: Schedule, on: Machine) -> Emission:
    """The warp program of an example, compiled."""
    spec = kernel(example).specialization
    return once(f"built-{on.name}-{example.name}", lambda: build_kernel(program, spec, found, on))


def main() -> int:
    """Solve what has to be solved."""
    for example in examples():
        try:
            schedule(example)
        except (exc.ScheduleMismatch, exc.MalformedSchedule):
            example.path.parent.mkdir(parents=True, exist_ok=True)
            found = _solved(example)
            example.path.write_text(found.canonical() + "\n", encoding="utf-8")
            print(f"{example.name}: I = {found.ii}, {found.solve_seconds:.0f} s", flush=True)
    return 0


def _solved(example: Example) -> Schedule:
    """The schedule that is emitted; if none can be, the one that the solver prefers, for tests to say why."""
    answers: list[Schedule] = []

    def solver(graph: DependenceGraph, on: Machine) -> Schedule:
        answers.append(_best(graph, on, DEFAULT))
        return answers[-1]

    try:
        return emit_solved(kernel(example), machine(), solver).schedule
    except (exc.BuildRejected, exc.WarpProgramBroken) as refused:
        print(f"{example.name}: {refused}", flush=True)
        return answers[0]


def _best(graph: DependenceGraph, on: Machine, asked: SolveOptions) -> Schedule:
    try:
        return solve(graph, on, asked)
    except exc.BudgetExhausted as ended:
        if not isinstance(ended.schedule, Schedule):
            raise
        return ended.schedule


if __name__ == "__main__":
    sys.exit(main())
