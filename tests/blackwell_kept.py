"""Examples emitted for the B200 whose schedules are kept, as their sidecars specialize them or with other tiles.

`python -m tests.blackwell_kept` solves what is missing or was solved for another kernel or machine; takes a minute.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Retiled(Example):
    """An example with another signature and other constants than its sidecar's. depth: HEAD_DIM."""

    depth: int = 0
    signature: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """attention_backward_full_d64."""
        return f"{super().name}_d{self.depth}"


def backward(spec: str, depth: int, queries: int, keys: int = 128) -> Retiled:
    """Attention backward with other tiles."""
    rows = {"q_desc": queries, "do_desc": queries, "k_desc": keys, "v_desc": keys, "dk_desc": keys, "dv_desc": keys}
    types = [f"{name}=tensordesc<bf16[{each},{depth}]>" for name, each in rows.items()]
    signature = (*types, f"dq_desc=tensordesc<fp32[{queries},{depth}]>")
    constants = (f"HEAD_DIM={depth}", f"BLOCK_M={queries}", f"BLOCK_N={keys}")
    return Retiled("examples/attention_backward.py", spec, depth, signature, constants)


def any_length(spec: str, depth: int = 128, rows: int = 128) -> Retiled:
    """Attention at any length in tiles that Blackwell has, those that `twill emit` takes for its sidecar's."""
    names = ("q_desc", "k_desc", "v_desc", "o_desc")
    types = tuple(f"{name}=tensordesc<bf16[1,{rows},{depth}]>" for name in names)
    return Retiled("examples/attention_any_length.py", spec, depth, types, (f"BLOCK_M={rows}", f"BLOCK_N={rows}"))


LINEAR = Example("examples/linear_attention.py", "bf16")
POINTERS = Example("examples/attention_pointers.py", "full")
DESCENDING = Example("examples/attention_descending.py", "causal")
WINDOW = Example("examples/sliding_window_attention.py", "bf16")
ANY_LENGTH, ANY_LENGTH_CAUSAL = any_length("full"), any_length("causal")
BACKWARD = Example("examples/attention_backward.py", "full")
BACKWARD_CAUSAL = Example("examples/attention_backward.py", "causal")
BACKWARD_64, BACKWARD_CAUSAL_64 = backward("full", 64, 64), backward("causal", 64, 64)
FORWARD = (POINTERS, DESCENDING, WINDOW, ANY_LENGTH, ANY_LENGTH_CAUSAL)
KEPT = (LINEAR, BACKWARD, BACKWARD_CAUSAL, BACKWARD_64, BACKWARD_CAUSAL_64, *FORWARD)


def given(one: Example) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Signature and constants instead of the sidecar's."""
    return (one.signature, one.constants) if isinstance(one, Retiled) else ((), ())


def path(one: Example) -> Path:
    """Where its schedule is kept."""
    return GOLDEN / "schedules_b200" / f"{one.name}.json"


@cache
def kernel(one: Example) -> Extracted:
    """Read. The working directory must be the repository."""
    return once(f"read-b200-{one.name}", lambda: extract(one.file, one.spec, *given(one)))


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
