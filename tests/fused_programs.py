"""Kernels whose program instances are fused: small tile programs, and examples with kept schedules.

`python -m tests.fused_programs` solves the kept schedules anew; takes a minute.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conftest import GOLDEN
from tests.golden_schedules import machine
from tests.kernels import H100
from twill import exc
from twill.codegen.emission import Extracted, emit_solved, extract, refuse_foreign
from twill.codegen.lowering import lower
from twill.codegen.warp.program import WarpProgram
from twill.graph.build import dependence_graph
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.program import TileProgram

FILE = str(Path(__file__).with_name("fused_kernels.py"))
DESCRIPTORS = tuple(f"{name}_desc=tensordesc<bf16[64, 64]>" for name in "abc")
TILES = ("ROWS=64", "COLUMNS=64")


@cache
def rows() -> TileProgram:
    """C = A B + bias in tiles of 64 x 64, one row of tiles for each index of axis 0, and the sums of C's rows."""
    sig = (*DESCRIPTORS, "Bias=*fp32", "Sums=*fp32", "K=i32:16")
    return extract(f"{FILE}::rows", sig=sig, const=TILES).program


def told(kernel: str, how: str) -> DependenceGraph:
    """Another kernel of that file, in one of its ways."""
    sig = (*DESCRIPTORS, *(("Count=*i32",) if kernel == "counting" else ()), "K=i32:16")
    return extract(f"{FILE}::{kernel}", sig=sig, const=(*TILES, f"HOW='{how}'")).graph


def fused(program: TileProgram, count: int) -> WarpProgram:
    """`count` instances of a program with one row block, fused, scheduled by the list scheduler."""
    schedule = solve(dependence_graph(program), H100, SolveOptions(strategy="heuristic", blocks=count))
    assert (schedule.cooperation.split, schedule.cooperation.fuse) == (1, count)
    return lower(program, schedule, H100)


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

        def solved(graph: DependenceGraph, on: Machine, ii: int | None = one.ii) -> Schedule:
            try:
                return solve(graph, on, SolveOptions(budget=60.0, blocks=2, ii=ii))
            except exc.BudgetExhausted as ended:
                if not isinstance(ended.schedule, Schedule):
                    raise
                return ended.schedule

        found = emit_solved(kernel(name), machine(), solved).schedule
        (GOLDEN / "fused" / f"{name}.json").write_text(found.canonical() + "\n", encoding="utf-8")
        print(f"{name}: I = {found.ii}, {found.cooperation.fuse} instances fused", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
