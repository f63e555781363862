"""Promises of kernels for the B200, of which nothing was run on one: their PTX, executed, computes the tile program.

The executor is held against PTX that others wrote for sm_100a (`tests.codegen.verify.ptx.test_strangers_blackwell`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests import blackwell
from tests.blackwell import DUAL, FP8, GELU, GEMM, LAYER_NORM, POINTERS, POINTERS_WIDE, WIDE
from tests.conftest import ROOT
from tests.golden_schedules import Example, kernel
from tests.gpu.blackwell import misplaced
from twill import exc
from twill.cli import main
from twill.codegen.verify.abstract.inputs import LARGE, CheckedLaunch, launch
from twill.codegen.verify.abstract.static import static_violations
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Number
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")

# Two tiles along each axis, or one row of them, the last one ragged, and so many steps that rings come round.
SIZES: dict[Example, Mapping[str, int]] = {
    GEMM: {"M": 144, "N": 144, "K": 528},
    FP8: {"M": 144, "N": 144, "K": 528},
    GELU: {"M": 144, "N": 144, "K": 272},
    POINTERS: {"M": 144, "N": 144, "K": 272},
    LAYER_NORM: {"M": 4, "N": 8208},
    WIDE: {"M": 8, "N": 272, "K": 272},
    POINTERS_WIDE: {"M": 16, "N": 208, "K": 272},
    DUAL: {"M": 8, "N": 144, "K": 336},
}


def given(example: Example, sizes: Mapping[str, int]) -> CheckedLaunch:
    problem = problem_of(kernel(example).specialization)
    assert problem is not None
    return launch(blackwell.lowered(example).program, problem.case(dict(sizes)), scale=LARGE, data="normal")


def said(example: Example, sizes: Mapping[str, int], change: Callable[[str], str] = str, ctas: int = 2) -> list[str]:
    made = blackwell.compiled(example)
    return execute.verified(change(made.build.ptx), made.manifest, made.program, given(example, sizes), ctas).said()


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_what_is_emitted_computes_its_tile_program(example: Example) -> None:
    assert said(example, SIZES[example]) == []


@pytest.mark.parametrize("sizes", [{"M": 1, "N": 8, "K": 8}, {"M": 400, "N": 16, "K": 72}])
def test_one_cta_works_on_tile_after_tile(sizes: Mapping[str, int]) -> None:
    assert said(GEMM, sizes, ctas=1) == []


def test_one_thread_multiplies_into_tensor_memory_and_another_group_reads_it() -> None:
    made = blackwell.compiled(GEMM)
    roles = {group.role: group for group in made.program.groups}
    assert [(group.role, group.threads) for group in made.program.groups] == [
        ("epilogue", 128),
        ("mma", 32),
        ("load", 32),
    ]
    assert any(isinstance(stmt, ir.TensorMultiply) for stmt in roles["mma"].stmts) and roles["mma"].issuer
    (ring,) = (ring for ring in made.program.arefs if ring.transport == "mma")
    assert ring.depth == 2 and made.program.tensor_columns == 256
    assert made.program.tensor_taken == 512 and replace(made.program, ctas=2).tensor_taken == 256
    assert re.search(r"tensor_alloc\(smem \+ \d+, 512\)", made.build.source)
    assert "tcgen05.mma.cta_group::1.kind::f16" in made.build.ptx and "wgmma.mma_async" not in made.build.ptx
    assert made.manifest.architecture == "sm_100a"
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)


def test_the_text_of_a_program_with_tensor_memory_is_read_back() -> None:
    program = blackwell.lowered(GEMM)
    assert parse(text(program), program.program) == program


# ---------------------------------------------------------------- what is wrong is found

Faulty = Callable[[ir.Stmt], ir.Stmt | None]


def changed(program: ir.WarpProgram, role: str, change: Faulty) -> ir.WarpProgram:
    """The program with every statement of a group's body changed, or left out."""

    def block(stmts: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        made = (change(ir.with_blocks(stmt, block)) for stmt in stmts)
        return tuple(stmt for stmt in made if stmt is not None)

    groups = (replace(g, body=block(g.body)) if g.role == role else g for g in program.groups)
    return replace(program, groups=tuple(groups))


def instead(kind: type[ir.Stmt], by: Faulty) -> Faulty:
    return lambda stmt: by(stmt) if isinstance(stmt, kind) else stmt


def multiply(**other: object) -> Faulty:
    return instead(ir.TensorMultiply, lambda stmt: replace(stmt, **other))  # type: ignore[arg-type]


EARLY: dict[str, Any] = {"behind": False}
FAULTS: dict[str, tuple[str, Faulty, str]] = {
    "it always adds": ("mma", multiply(accumulate=Number(1, "i1")), "values"),
    "it never adds": ("mma", multiply(accumulate=Number(0, "i1")), "values"),
    "the accumulator's slot is not waited for": ("mma", instead(ir.Acquire, lambda stmt: None), "order"),
    "operands are not waited for": ("mma", instead(ir.Get, lambda stmt: None), "phase"),
    "slots go back before the products are over": (
        "mma", instead(ir.Consumed, lambda stmt: replace(stmt, **EARLY)), "mma-wait",
    ),
    "accumulators are not handed on": ("mma", instead(ir.Publish, lambda stmt: None), "deadlock"),
    "accumulators are read without a wait": ("epilogue", instead(ir.Get, lambda stmt: None), "order"),
    "accumulators are not given back": ("epilogue", instead(ir.Consumed, lambda stmt: None), "deadlock"),
}  # fmt: skip


def given_back_with_its_first_part(stmt: ir.Stmt) -> ir.Stmt | None:
    if not isinstance(stmt, ir.If) or not any(isinstance(inner, ir.LoadAccumulator) for inner in stmt.body):
        return stmt
    cursors = [inner.cursor for inner in stmt.body if isinstance(inner, ir.Get)]
    body = tuple(s for s in stmt.body if not isinstance(s, ir.Consumed | ir.Advance))
    back = (made for cursor in cursors for made in (ir.Consumed(cursor), ir.Advance(cursor)))
    return replace(stmt, body=(*body, *back))


def first_part(field: str) -> Faulty:
    return lambda stmt: replace(stmt, **{field: replace(getattr(stmt, field), columns=(0, 64))})


PARTS: dict[str, tuple[Faulty, str]] = {
    "every part is the first": (instead(ir.LoadAccumulator, first_part("source")), "values"),
    "the slot goes back with the first part": (given_back_with_its_first_part, "order"),
    "a part is stored where the last one is": (instead(ir.StoreShared, first_part("target")), "bulk"),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_a_fault_in_what_is_read_in_parts_of_columns_is_found(name: str) -> None:
    change, rule = PARTS[name]
    found = verify(changed(blackwell.lowered(DUAL), "epilogue", change), problem_of(kernel(DUAL).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


def test_two_accumulators_are_read_in_parts_of_columns_and_nothing_spills() -> None:
    made = blackwell.compiled(DUAL)
    epilogue = made.program.groups[0]
    loads = [stmt for stmt in epilogue.stmts if isinstance(stmt, ir.LoadAccumulator)]
    assert [stmt.source.columns for stmt in loads] == [(0, 64), (0, 64), (64, 128), (64, 128)]
    assert sum(isinstance(stmt, ir.Consumed) for stmt in epilogue.stmts) == 2
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_tensor_memory_is_found_by_the_abstract_machine(name: str) -> None:
    role, change, rule = FAULTS[name]
    problem = problem_of(kernel(GEMM).specialization)
    found = verify(changed(blackwell.lowered(GEMM), role, change), problem)
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


def test_accumulators_that_overlap_or_that_a_warp_cannot_reach_are_found_as_they_stand() -> None:
    program = blackwell.lowered(GEMM)
    two = tuple(replace(b, id=len(program.buffers), name="other") for b in program.buffers if b.tensor)
    overlapping = replace(program, buffers=(*program.buffers, *two))
    assert "`acc` and `other` overlap by 256 columns" in str(static_violations(overlapping))
    before = tuple(replace(b, offset=-16) if b.tensor else b for b in program.buffers)
    assert "begins in front of tensor memory" in str(static_violations(replace(program, buffers=before)))
    narrow = (replace(g, threads=64) if g.role == "epilogue" else g for g in program.groups)
    assert "its warps are not its four quarters" in str(static_violations(replace(program, groups=tuple(narrow))))


def without(pattern: str) -> Callable[[str], str]:
    def change(ptx: str) -> str:
        made, count = re.subn(rf"^\s*{pattern}[^;]*;", "", ptx, flags=re.M)
        assert count
        return made

    return change


def other(pattern: str, by: str | Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    def change(ptx: str) -> str:
        made, count = re.subn(pattern, by, ptx)
        assert count
        return made

    return change


PRINTED = {
    "loads are not waited for": without(r"tcgen05\.wait::ld"),
    "tensor memory is not given back": without(r"tcgen05\.dealloc"),
    "reads are not fenced before the slot goes back": without(r"tcgen05\.fence::before_thread_sync"),
    "a wait is not followed by a fence": without(r"tcgen05\.fence::after_thread_sync"),
    "products are not committed": without(r"tcgen05\.commit"),
    "the version of matrix descriptors is missing": other(
        r"\b46117566\d{11}\b", lambda found: str(int(found[0]) & ~(1 << 46))
    ),
    "the second half of the lanes is the first": other(r"\b1048576\b", "0"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_fault_of_the_printer_is_found_by_the_executor(name: str) -> None:
    assert said(GEMM, {"M": 400, "N": 16, "K": 136}, PRINTED[name], ctas=1)


# ---------------------------------------------------------------- loops that multiply, of all kinds

TYPES = {"a": "tensordesc<bf16[128,64]>", "b": "tensordesc<bf16[64,64]>", "c": "tensordesc<bf16[128,64]>", "M": "i32",
         "N": "i32", "K": "i32"}  # fmt: skip
GIVEN = [word for name, text in TYPES.items() for word in ("--sig", f"{name}={text}")]
LOOPS = [*GIVEN, "--const", "BM=128", "--const", "BN=64", "--const", "BK=64", "--machine", "b200", "--no-store"]


@pytest.mark.parametrize(
    "name", ["a_held_operand", "one_loop_behind_another", "the_last_product", "two_into_one", "a_loop_that_goes_on"]
)
def test_loops_that_add_up_products_are_emitted(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", f"tests/tensor_kernels.py::{name}", *LOOPS, "--execute"]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


def test_accumulators_that_begin_with_something_else_than_zero_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", "tests/tensor_kernels.py::from_ones", *LOOPS, "--ir"]) == 2
    said = capsys.readouterr().err
    assert re.search(r"tensor_kernels\.py:\d+: `acc` adds to more than its own accumulator from zero on", said)


# ---------------------------------------------------------------- what is not emitted yet


def test_what_is_not_emitted_is_refused_at_its_line_before_it_is_solved(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twill.cli.solve.run", lambda *given: pytest.fail("solved"))
    asked = ["emit", str(ROOT / "examples" / "dual_gemm.py"), "--spec", "bf16-192"]
    assert main([*asked, "--machine", "b200", "--ir", "--no-store"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and re.search(
        r"dual_gemm\.py:\d+: `gate` is a product of 192 x 128 x 64 in bf16, and Blackwell has 128 or 64 rows", said.err
    )


def test_a_dynamic_order_is_emitted_and_that_nothing_was_run_on_hardware_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["emit", str(ROOT / GEMM.file), "--machine", "b200", "--no-store", "--execute"]
    assert main([*asked, "--order", "dynamic"]) == 0  # a thread of the MMAs' group fetches instances
    said = capsys.readouterr().out
    assert "equal to the tile program, nothing found" in said and "not run on hardware" in said
    assert "// not run on hardware" in blackwell.compiled(GEMM).printed.text


def test_more_columns_than_tensor_memory_has_are_refused() -> None:
    small = blackwell.machine().model_copy(
        update={"memories": tuple(
            m.model_copy(update={"bytes": m.bytes.model_copy(update={"value": 32768})}) if m.name == "tmem" else m
            for m in blackwell.machine().memories
        )}
    )  # fmt: skip
    with pytest.raises(exc.TwillError, match="tmem"):
        solve(kernel(GEMM).graph, small, SolveOptions(fuse=False))


def test_manifests_say_that_nobody_has_run_such_a_kernel() -> None:
    assert "not run on hardware" in blackwell.compiled(GEMM).manifest.unproven


def test_elements_that_moved_are_said_with_where_they_belong() -> None:
    rows, columns = np.indices((8, 4))
    assert list(misplaced(rows, columns)) == []
    rows[[2, 3]] = rows[[3, 2]]  # two lanes changed places
    assert list(misplaced(rows, columns))[:2] == [
        "8 of 32 elements are not where they belong",
        "at (2, 0) lies what belongs to (3, 0)",
    ]
