"""Promises of sums in tensor memory that threads read in every iteration, and of products that add to one another:
linear attention for the B200, with chunks of 128 rows. Nothing was run on one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.blackwell import machine
from tests.codegen.targets.test_blackwell import changed
from tests.codegen.targets.test_blackwell_attention import Faulty, at
from tests.conftest import GOLDEN
from tests.run_cache import once
from twill.cli import main
from twill.codegen.emission import Extracted, extract
from twill.codegen.emit import build_kernel
from twill.codegen.gluon import GluonEmission, emit_gluon
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Number
from twill.kernel.specialization import problem_of
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial import execute
from twill.trial.gluon import checked

pytestmark = pytest.mark.usefixtures("at_root")

COLUMNS = {"q_desc": 128, "k_desc": 128, "v_desc": 64, "o_desc": 64}
SIGNATURE = [f"{name}=tensordesc<bf16[128,{columns}]>" for name, columns in COLUMNS.items()]


@cache
def extracted() -> Extracted:
    asked = ("examples/linear_attention.py", "bf16", SIGNATURE, ["CHUNK=128"])
    return once("read-b200-linear-attention", lambda: extract(*asked))


@cache
def schedule() -> Schedule:
    asked = SolveOptions(fuse=False)
    found = once("b200-linear-attention", lambda: solve(extracted().graph, machine(), asked))
    assert isinstance(found, Schedule)
    return found


@cache
def lowered() -> ir.WarpProgram:
    return lower(extracted().wired, schedule(), machine())


def test_what_is_emitted_computes_its_tile_program_when_all_rings_have_come_round() -> None:
    made = build_kernel(lowered(), extracted().specialization, schedule(), machine())
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)
    problem = problem_of(extracted().specialization)
    assert problem is not None
    given = launch(extracted().program, problem.case({"Z": 1, "H": 1, "T": 640, "HEAD_V": 128}), data="normal")
    assert execute.verified(made.build.ptx, made.manifest, made.program, given, 1).said() == []


def test_the_abstract_machine_consents() -> None:
    found = verify(lowered(), problem_of(extracted().specialization))
    assert [violation.describe() for violation in found] == []


def test_the_state_has_one_slot_and_what_adds_up_o_shares_one() -> None:
    program = lowered()
    tensor = {b.name: (b.slots, b.width) for b in program.buffers if b.tensor}
    assert tensor == {"qk": (2, 128), "o": (1, 64), "state": (1, 64), "o 2": (2, 64)}
    assert program.tensor_columns == 512
    mma = next(group for group in program.groups if group.role == "mma")
    into = [program.buffers[s.target.buffer].name for s in mma.stmts if isinstance(s, ir.TensorMultiply)]
    assert into.count("o") == 2 * into.count("state")


@cache
def in_gluon() -> GluonEmission:
    return emit_gluon(extracted(), machine(), lambda *_: schedule())


def test_the_module_of_gluon_is_read_back_and_computes_the_same(request: pytest.FixtureRequest) -> None:
    made = in_gluon()
    assert made.compiled.local == 0
    golden = GOLDEN / "gluon_b200_linear_attention.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(made.module.text, encoding="utf-8")
    assert made.module.text == golden.read_text(encoding="utf-8")
    assert "equal to the tile program, nothing found" in checked(made, extracted().specialization)
    assert "state_bf16_ring.tile(count).store(" in made.module.text  # operand B, which threads compute


# ---------------------------------------------------------------- what is wrong is found

# (That the state's slot is free follows from the ring of what threads make of it, too.)
FAULTS: dict[str, tuple[str, type[Any], str, set[str]]] = {
    "the state is not waited for": ("compute", ir.Get, "state_get", {"order", "phase"}),
    "the state is not given back": ("compute", ir.Consumed, "state_get", {"deadlock"}),
    "the state is not handed on": ("mma", ir.Publish, "state_put", {"deadlock"}),
    "O begins anew while it is read": ("mma", ir.Acquire, "o_put", {"order"}),
    "the state in bf16 is not handed on": ("compute", ir.Publish, "o_put", {"deadlock"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_a_ring_is_found_by_the_abstract_machine(name: str) -> None:
    role, kind, cursor, rules = FAULTS[name]
    program = lowered()
    wrong = changed(program, role, at(program, kind, cursor))
    assert wrong != program
    found = verify(wrong, problem_of(extracted().specialization), enough=3)
    assert rules & {violation.rule for violation in found}, [v.describe() for v in found]


def adding(into: str, to: bool) -> Faulty:
    """Products into a ring that all add, or all overwrite."""
    numbers = {b.id for b in lowered().buffers if b.tensor and b.name == into}

    def change(stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.TensorMultiply) or stmt.target.buffer not in numbers:
            return stmt
        return replace(stmt, accumulate=Number(int(to), "i1"))

    return change


@pytest.mark.parametrize(("into", "to"), [("o", False), ("o", True), ("state", False), ("state", True)])
def test_a_product_that_adds_to_what_it_should_overwrite_or_the_other_way_round_is_found(into: str, to: bool) -> None:
    wrong = changed(lowered(), "mma", adding(into, to))
    assert wrong != lowered()
    found = verify(wrong, problem_of(extracted().specialization), enough=3)
    assert {"values", "undefined"} & {violation.rule for violation in found}


# ---------------------------------------------------------------- what is refused

READ_TWICE = """
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, c, d, M, K, BM: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((BM, BK), dtype=tl.float32)
    for k in range(0, K, BK):
        x = a.load([0, k])
        acc = tl.dot(x, b.load([k, 0]), acc)
        c.store([0, k], acc.to(tl.bfloat16))
    d.store([0, 0], acc.to(tl.bfloat16))
"""


def test_a_sum_that_is_read_in_its_loop_and_behind_it_is_refused_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(READ_TWICE, encoding="utf-8")
    tiles = {"a": "128,64", "b": "64,64", "c": "128,64", "d": "128,64"}
    given = [word for name, shape in tiles.items() for word in ("--sig", f"{name}=tensordesc<bf16[{shape}]>")]
    given += ["--sig", "M=i32", "--sig", "K=i32", "--const", "BM=128", "--const", "BK=64", "--machine", "b200"]
    assert main(["emit", str(path), *given, "--ir", "--no-store"]) == 2
    assert "kernel.py:11: `acc` is read in its loop and behind it" in capsys.readouterr().err
