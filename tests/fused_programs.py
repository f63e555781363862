"""Schedules that fuse program instances: examples with kept ones, and kernels that are told apart.

They are solved, drawn and compared, not emitted. `python -m tests.fused_programs` solves the kept schedules anew.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conftest import GOLDEN
from tests.golden_schedules import machine
from twill import exc
from twill.codegen.emission import Extracted, extract, refuse_foreign
from twill.graph.dependence import DependenceGraph
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

FILE = str(Path(__file__).with_name("fused_kernels.py"))
DESCRIPTORS = tuple(f"{name}_desc=tensordesc<bf16[64, 64]>" for name in "abc")
TILES = ("ROWS=64", "COLUMNS=64")


def told(kernel: str, how: str) -> DependenceGraph:
    """Another kernel of that file, in one of its ways."""
    sig = (*DESCRIPTORS, *(("Count=*i32",) if kernel == "counting" else ()), "K=i32:16")
    return extract(f"{FILE}::{kernel}", sig=sig, const=(*TILES, f"HOW='{how}'")).graph


@dataclass(frozen=True)
class Kept:
    """An example with tiles of 64 rows (or columns), two of which are fused. ii: asked for, where the least I is not
    compiled as it should be (`tests.golden_schedules`)."""

    file: str
    spec: str
    sig: tuple[str, ...] = ()
    const: tuple[str, ...] = ()
    ii: int | None = None


KEPT = {
    "dual_gemm": Kept(
        "dual_gemm", "bf16", ("x_desc=tensordesc<bf16[64, 64]>", "y_desc=tensordesc<bf16[64, 128]>"), ("BLOCK_M=64",)
    ),
    "attention": Kept(
        "attention", "full-d64", ("q_desc=tensordesc<bf16[64, 64]>", "o_desc=tensordesc<bf16[64, 64]>"),
        ("BLOCK_M=64",), 1400,
    ),
    "linear_attention": Kept("linear_attention", "bf16", ii=1600),
}  # fmt: skip


@cache
def kernel(name: str) -> Extracted:
    """The kernel of a kept schedule. The working directory must be the repository."""
    one = KEPT[name]
    return extract(f"examples/{one.file}.py", one.spec, one.sig, one.const)


@cache
def schedule(name: str) -> Schedule:
    """A kept schedule."""
    found = load_schedule(GOLDEN / "fused" / f"{name}.json")
    refuse_foreign(found, kernel(name).graph, machine())
    return found


def main() -> int:
    """Solve all of them."""
    for name, one in KEPT.items():
        try:
            found = solve(kernel(name).graph, machine(), SolveOptions(budget=60.0, blocks=2, ii=one.ii))
        except exc.BudgetExhausted as ended:
            assert isinstance(ended.schedule, Schedule)
            found = ended.schedule
        (GOLDEN / "fused" / f"{name}.json").write_text(found.canonical() + "\n", encoding="utf-8")
        print(f"{name}: I = {found.ii}, {found.cooperation.fuse} instances fused", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
