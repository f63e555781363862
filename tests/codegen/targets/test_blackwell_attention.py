"""Promises of attention for the B200: S, P and O in tensor memory, the roles that the solver found, faults that are
found. Nothing was run on one: its PTX, executed, computes the tile program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests import blackwell_attention as attention
from tests.blackwell import machine
from tests.blackwell_attention import CAUSAL, CAUSAL_64, CAUSAL_TWO, FULL, FULL_64, FULL_256, FULL_TWO, Attention
from tests.codegen.targets.test_blackwell import changed, instead, other, without
from tests.run_cache import once
from twill.cli import main
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launch
from twill.codegen.verify.abstract.static import static_violations
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import program as ir
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.kernel.specialization import problem_of
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")

# Several blocks of queries for one CTA, and so many of keys that rings come round.
KEYS: dict[Attention, int] = {
    FULL: 384, CAUSAL: 384, FULL_TWO: 512, CAUSAL_TWO: 512, FULL_64: 384, CAUSAL_64: 384, FULL_256: 256,
}  # fmt: skip


def given(one: Attention, keys: int) -> CheckedLaunch:
    problem = problem_of(attention.kernel(one).specialization)
    assert problem is not None
    return launch(attention.kernel(one).program, problem.case({"Z": 1, "H": 1, "N_CTX": keys}), data="normal")


def said(one: Attention, keys: int, change: Callable[[str], str] = str) -> list[str]:
    made = attention.compiled(one)
    return execute.verified(change(made.build.ptx), made.manifest, made.program, given(one, keys), 1).said()


@pytest.mark.parametrize("one", KEYS, ids=[one.name for one in KEYS])
def test_what_is_emitted_computes_its_tile_program(one: Attention) -> None:
    made = attention.compiled(one)
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)
    assert said(one, KEYS[one]) == []


@pytest.mark.parametrize("one", [CAUSAL, FULL_TWO], ids=["causal-128", "full-256"])
def test_the_abstract_machine_consents(one: Attention) -> None:
    found = verify(attention.lowered(one), problem_of(attention.kernel(one).specialization))
    assert [violation.describe() for violation in found] == []


def test_exponentials_are_polynomials_in_part_where_that_gives_less_i() -> None:
    shares = {FULL: 8, CAUSAL: 8, FULL_TWO: 0}
    for one, share in shares.items():
        schedule, program = attention.schedule(one), attention.lowered(one)
        assert schedule.cooperation.polynomial == share
        tiles = [s for g in program.groups for s in g.stmts if isinstance(s, ir.Compute) and s.kind == "exp2"]
        said = {dict(stmt.attributes).get(ir.POLYNOMIAL, 0) for stmt in tiles}
        assert said == ({0, share} if share else {0})  # those of rows are whole
    assert attention.schedule(FULL).ii == 1488
    ptx = attention.compiled(FULL).build.ptx
    assert ptx.count("fma.rn.f32x2") == 5 * 32  # of 128 a thread 64, two at once
    assert attention.compiled(FULL_TWO).build.ptx.count("fma.rn.f32x2") == 0


def test_a_single_block_of_keys_is_one_iteration() -> None:
    assert said(FULL, 128) == []


def test_the_roles_of_two_row_blocks_are_those_that_the_solver_found() -> None:
    program = attention.lowered(FULL_TWO)
    assert [(group.role, group.threads, group.registers) for group in program.groups] == [
        ("softmax 0", 128, 192), ("softmax 1", 128, 192), ("correction", 128, 64), ("load", 32, 64), ("mma", 96, 64),
    ]  # fmt: skip
    assert sum(group.threads * group.registers for group in program.groups) == 65536
    roles = {group.role: group for group in program.groups}
    stored = [stmt for stmt in roles["correction"].stmts if isinstance(stmt, ir.StoreAccumulator)]
    assert stored and not any(isinstance(stmt, ir.StoreAccumulator) for stmt in roles["softmax 0"].stmts)
    assert roles["mma"].issuer and roles["load"].issuer


def test_a_wide_o_is_read_in_parts_of_columns_behind_the_loop_by_the_group_that_rescales_it() -> None:
    program = attention.lowered(FULL_256)
    assert [group.role for group in program.groups] == ["softmax", "load", "mma"]
    behind = [stmt for stmt in ir.walk(program.groups[0].body) if isinstance(stmt, ir.LoadAccumulator)]
    assert {stmt.source.columns for stmt in behind} >= {(0, 64), (64, 128), (128, 192), (192, 256)}


def test_p_lies_over_s_where_the_schedule_counts_it_as_nothing() -> None:
    buffers = {buffer.name: buffer for buffer in attention.lowered(FULL).buffers if buffer.tensor}
    assert {name: (b.offset, b.slots, b.stride, b.width) for name, b in buffers.items()} == {
        "qk": (0, 3, 128, 128), "acc": (384, 1, 128, 128), "acc 2": (0, 3, 128, 64),
    }  # fmt: skip
    assert attention.lowered(FULL).tensor_columns == 512


def test_the_text_of_a_program_that_stores_to_tensor_memory_is_read_back() -> None:
    program = attention.lowered(FULL)
    assert parse(text(program), program.program) == program


def test_a_budget_is_set_by_the_whole_warp_group_of_those_that_issue() -> None:
    printed = attention.compiled(FULL_TWO).printed.text
    assert printed.count("regs_shrink<64>();") == 2 and "else {\n    regs_shrink<64>();" in printed


# ---------------------------------------------------------------- threads and MMAs on one accumulator, of any kernel

TYPES = {"q": "tensordesc<bf16[128,64]>", "k": "tensordesc<bf16[64,64]>", "v": "tensordesc<bf16[64,64]>",
         "o": "tensordesc<bf16[128,64]>", "M": "i32", "K": "i32"}  # fmt: skip
SQUARES = [word for name, kind in TYPES.items() for word in ("--sig", f"{name}={kind}")]
SQUARES += ["--const", "D=64", "--const", "BM=128", "--const", "BK=64", "--machine", "b200", "--no-store"]


def given_squares(start: float = 1.5) -> tuple[list[str], list[str]]:
    return [f"{name}={kind}" for name, kind in TYPES.items()], ["D=64", "BM=128", "BK=64", f"START={start}"]


@pytest.mark.parametrize("start", ["0.0", "1.5"])
def test_an_accumulator_that_threads_change_begins_with_any_constant_also_without_iterations(
    start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["emit", "tests/tensor_kernels.py::squares", *SQUARES, "--const", f"START={start}", "--execute"]
    assert main(asked) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


# ---------------------------------------------------------------- what is wrong is found

Faulty = Callable[[ir.Stmt], ir.Stmt | None]


def at(program: ir.WarpProgram, kind: type[Any], cursor: str, by: Faulty = lambda stmt: None) -> Faulty:
    """A change of statements of a kind at cursors of that name."""
    numbers = {c.id for group in program.groups for c in group.cursors if c.name == cursor}
    assert numbers
    return lambda stmt: by(stmt) if isinstance(stmt, kind) and stmt.cursor in numbers else stmt


FAULTS: dict[str, tuple[Attention, str, type[Any], str, set[str]]] = {
    "S is not waited for": (FULL, "softmax", ir.Get, "qk_get", {"order", "phase"}),
    "S is not given back": (FULL, "softmax", ir.Consumed, "qk_get", {"deadlock"}),
    "S is made before its slot is free": (FULL_TWO, "mma", ir.Acquire, "qk.0_put", {"order"}),
    "P is not handed on": (FULL, "softmax", ir.Publish, "acc 2_put", {"deadlock"}),
    "P is not waited for": (FULL, "mma", ir.Get, "acc 2_get", {"order"}),
    "P is overwritten while an MMA reads it": (FULL_TWO, "softmax 1", ir.Acquire, "acc.1_put", {"mma-wait"}),
    "P is not given back": (FULL, "mma", ir.Consumed, "acc 2_get", {"deadlock"}),
    "O is rescaled beside an MMA": (FULL, "correction", ir.Acquire, "acc_put", {"phase", "deadlock"}),
    "O is not handed back": (FULL, "correction", ir.Publish, "acc_put", {"deadlock"}),
    "O is added to before it is rescaled": (FULL, "mma", ir.Get, "acc_get", {"order"}),
    "O is read before it is complete": (FULL, "softmax", ir.Get, "acc result_get", {"order"}),
    "O is not released": (FULL, "softmax", ir.Consumed, "acc result_get", {"deadlock"}),
    "alpha is not waited for": (FULL, "correction", ir.Get, "alpha_get", {"order", "phase"}),
    "O leaves through what P is still read from": (FULL_TWO, "softmax 0", ir.BulkWait, "", {"order", "bulk"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_between_threads_and_mmas_is_found_by_the_abstract_machine(name: str) -> None:
    one, role, kind, cursor, rules = FAULTS[name]
    program = attention.lowered(one)
    change = at(program, kind, cursor) if cursor else instead(kind, lambda stmt: None)
    wrong = changed(program, role, change)
    assert wrong != program
    found = verify(wrong, problem_of(attention.kernel(one).specialization), enough=3)
    assert rules & {violation.rule for violation in found}, [v.describe() for v in found]


def test_an_arrival_behind_mmas_is_not_known_from_a_later_one_of_the_same_thread() -> None:
    """Of the first K of an instance: that Q's slot is free says that the MMAs are over, not that their arrival for K's
    slot has come; a wait for the next phase would take the last one for it."""
    program = attention.lowered(FULL)

    def unasked(stmt: ir.Stmt) -> ir.Stmt:
        if not isinstance(stmt, ir.Pipeline):
            return stmt
        kept = (tuple(one for one in stage if not isinstance(one, ir.Acquire)) for stage in stmt.prologue)
        return replace(stmt, prologue=tuple(kept))

    wrong = changed(program, "load", unasked)
    assert wrong != program
    found = verify(wrong, problem_of(attention.kernel(FULL).specialization), enough=1)
    assert found and found[0].rule == "phase", [v.describe() for v in found]


def test_an_accumulator_that_begins_anew_while_it_is_read_is_found() -> None:
    extracted = once("read-squares", lambda: extract("tests/tensor_kernels.py::squares", None, *given_squares()))
    solved = once("b200-squares", lambda: solve(extracted.graph, machine(), SolveOptions(fuse=False)))
    assert isinstance(solved, Schedule)
    program = lower(extracted.wired, solved, machine())
    problem = problem_of(extracted.specialization)
    assert verify(program, problem) == ()
    wrong = changed(program, "correction", at(program, ir.Acquire, "acc result_put"))
    assert "order" in {violation.rule for violation in verify(wrong, problem, enough=3)}


def moved(program: ir.WarpProgram, name: str, **to: int) -> ir.WarpProgram:
    buffers = (replace(b, **to) if b.tensor and b.name == name else b for b in program.buffers)  # type: ignore[arg-type]
    return replace(program, buffers=tuple(buffers))


def test_p_over_anything_but_its_own_s_is_found_as_it_stands() -> None:
    program = attention.lowered(FULL)
    assert "overlap" not in str(static_violations(program))
    for first in (64 + 32, 256):  # across two slots of S; over O
        assert "overlap by" in str(static_violations(moved(program, "acc 2", offset=first)))


def test_warps_that_are_not_the_four_quarters_are_found() -> None:
    program = attention.lowered(FULL)
    groups = (replace(g, threads=96) if g.role == "softmax" else g for g in program.groups)
    assert "correction reads tensor memory, and its warps are not its four quarters" in str(
        static_violations(replace(program, groups=tuple(groups)))
    )


ST_OF_64_BITS = "tcgen05.st.sync.aligned.16x64b.x16"
PRINTED: Mapping[str, Callable[[str], str]] = {
    "loads are not waited for": without(r"tcgen05\.wait::ld"),
    "stores are not waited for": without(r"tcgen05\.wait::st"),
    "waits are not followed by a fence": without(r"tcgen05\.fence::after_thread_sync"),
    "arrivals are not behind a fence": without(r"tcgen05\.fence::before_thread_sync"),
    "P is stored as another shape": other(r"tcgen05\.st\.sync\.aligned\.16x128b\.x8", ST_OF_64_BITS),
    "products are not committed": without(r"tcgen05\.commit"),
    "tensor memory is not given back": without(r"tcgen05\.dealloc"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_fault_of_the_printer_is_found_by_the_executor(name: str) -> None:
    assert said(FULL, 256, PRINTED[name])


def test_the_schedules_are_of_the_machine_as_it_is() -> None:
    for one in attention.EMITTED:
        assert attention.schedule(one).machine_digest == machine().digest()
        assert re.fullmatch(r"[a-z0-9-]+", one.name)
