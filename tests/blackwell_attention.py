"""Attention emitted for the B200, whose schedules are kept: with one block of 128 rows a CTA, and with two.

`python -m tests.blackwell_attention` solves what is missing or was solved for another kernel or machine; takes minutes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.blackwell import machine
from tests.conftest import GOLDEN
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
from twill.tile.rewrite.pipeline import Allowed

FILE = "examples/attention.py"


@dataclass(frozen=True)
class Attention:
    """A specialization of the example; rows: of queries a program instance; keys: of an iteration. depth: HEAD_DIM.
    conditional: whether warps vote on rescaling, which modules of Gluon can't say."""

    spec: str
    rows: int = 128
    depth: int = 128
    keys: int = 128
    conditional: bool = True

    @property
    def name(self) -> str:
        """full-128."""
        return f"{self.spec}-{self.rows}{'' if self.conditional else '-always'}"

    @property
    def path(self) -> Path:
        """Where its schedule is kept."""
        return GOLDEN / "schedules_b200" / f"{self.name}.json"

    @property
    def constants(self) -> tuple[str, ...]:
        """How large its tiles are."""
        return f"BLOCK_M={self.rows}", f"BLOCK_N={self.keys}"

    @property
    def signature(self) -> tuple[str, ...]:
        """The tensors, whose boxes are tiles."""
        rows = {"q_desc": self.rows, "o_desc": self.rows, "k_desc": self.keys, "v_desc": self.keys}
        return tuple(f"{name}=tensordesc<bf16[{each},{self.depth}]>" for name, each in rows.items())

    @property
    def words(self) -> tuple[str, ...]:
        """What `twill emit` is told."""
        said = (*(("--sig", one) for one in self.signature), *(("--const", one) for one in self.constants))
        return (FILE, "--spec", self.spec, *(word for pair in said for word in pair))


FULL, CAUSAL = Attention("full"), Attention("causal")
FULL_TWO, CAUSAL_TWO = Attention("full", 256), Attention("causal", 256)
FULL_64, CAUSAL_64 = Attention("full-d64", depth=64), Attention("causal-d64", depth=64)
FULL_256, CAUSAL_256 = (Attention(spec, depth=256, keys=32) for spec in ("full-d256", "causal-d256"))
EMITTED = (FULL, CAUSAL, FULL_TWO, CAUSAL_TWO, FULL_64, CAUSAL_64, FULL_256, CAUSAL_256)
IN_GLUON = tuple(replace(one, conditional=False) for one in (FULL, CAUSAL, FULL_TWO))


@cache
def kernel(one: Attention) -> Extracted:
    """Read. The working directory must be the repository."""
    asked = (FILE, one.spec, one.signature, one.constants, Allowed(conditional=one.conditional))
    return once(f"read-attention-{one.name}", lambda: extract(*asked))


@cache
def schedule(one: Attention) -> Schedule:
    """The kept schedule. Errors: ScheduleMismatch if it is not for the kernel and machine as they are."""
    found = load_schedule(one.path)
    refuse_foreign(found, kernel(one).graph, machine())
    return found


@cache
def lowered(one: Attention) -> WarpProgram:
    """Its warp program."""
    return lower(kernel(one).wired, schedule(one), machine())


@cache
def compiled(one: Attention) -> Emission:
    """Lowered and compiled; neither checked nor executed."""
    made = (lowered(one), kernel(one).specialization, schedule(one), machine())
    return once(f"built-b200-attention-{one.name}", lambda: build_kernel(*made))


def main() -> int:
    """Solve what has to be solved."""
    for one in (*EMITTED, *IN_GLUON):
        try:
            schedule(one)
        except (exc.ScheduleMismatch, exc.MalformedSchedule):
            options = SolveOptions(budget=600.0, fuse=False, whole_exponentials=not one.conditional)
            found = solve(kernel(one).graph, machine(), options)
            assert isinstance(found, Schedule)
            one.path.write_text(found.canonical() + "\n", encoding="utf-8")
            print(f"{one.name}: I = {found.ii}, {found.solve_seconds:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
