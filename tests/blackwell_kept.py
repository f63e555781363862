"""Examples emitted for the B200 whose schedules are kept, as their sidecars specialize them.

`python -m tests.blackwell_kept` solves what is missing or was solved for another kernel or machine; takes a minute.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from tests.blackwell import machine
from tests.conftest import GOLDEN
from tests.golden_schedules import Example
from tests.run_cache import once
from twill import exc
from twill.codegen.emission import Extracted, extract, refuse_foreign
from twill.codegen.emit import Emission, build_kernel
from twill.codegen.lowering import lower
from twill.codegen.warp.program import WarpProgram
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

LINEAR = Example("examples/linear_attention.py", "bf16")
BACKWARD = Example("examples/attention_backward.py", "full")
BACKWARD_CAUSAL = Example("examples/attention_backward.py", "causal")
KEPT = (LINEAR, BACKWARD, BACKWARD_CAUSAL)


def path(one: Example) -> Path:
    """Where its schedule is kept."""
    return GOLDEN / "schedules_b200" / f"{one.name}.json"


@cache
def kernel(one: Example) -> Extracted:
    """Read. The working directory must be the repository."""
    return once(f"read-b200-{one.name}", lambda: extract(one.file, one.spec, (), ()))


@cache
def schedule(one: Example) -> Schedule:
    """The kept schedule. Errors: ScheduleMismatch if it is not for the kernel and machine as they are."""
    found = load_schedule(path(one))
    refuse_foreign(found, kernel(one).graph, machine())
    return found


@cache
def lowered(one: Example) -> WarpProgram:
    """Its warp program."""
    return lower(kernel(one).wired, schedule(one), machine())


@cache
def compiled(one: Example) -> Emission:
    """Lowered and compiled; neither checked nor executed."""
    made = (lowered(one), kernel(one).specialization, schedule(one), machine())
    return once(f"built-b200-{one.name}", lambda: build_kernel(*made))


def main() -> int:
    """Solve what has to be solved."""
    for one in KEPT:
        try:
            schedule(one)
        except (exc.ScheduleMismatch, exc.MalformedSchedule):
            found = solve(kernel(one).graph, machine(), SolveOptions(budget=240.0, fuse=False))
            assert isinstance(found, Schedule)
            path(one).write_text(found.canonical() + "\n", encoding="utf-8")
            print(f"{one.name}: I = {found.ii}, {found.solve_seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
