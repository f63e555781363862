"""Promises of products of 64 rows for the B200, which lie in the first half of each warp's lanes: linear attention in
chunks of 64, and attention backward, whose five products share tensor memory. Nothing was run on one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.blackwell import machine
from tests.blackwell_kept import BACKWARD, BACKWARD_CAUSAL, LINEAR, compiled, kernel, lowered, schedule
from tests.codegen.targets.test_blackwell import changed
from tests.codegen.targets.test_blackwell_attention import at
from tests.golden_schedules import Example
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import emit_gluon, lowerings
from twill.codegen.print.gluon.sayable import reasons
from twill.codegen.targets.base import target_of
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract.static import static_violations
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import program as ir
from twill.codegen.warp.layout import Accumulator
from twill.graph.dependence import Tile
from twill.graph.tile_size import tensor_bytes
from twill.kernel.specialization import problem_of
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial import execute
from twill.trial.gluon import checked

pytestmark = pytest.mark.usefixtures("at_root")

# One head, of which one CTA works on several blocks, each with more iterations than a ring has slots.
SIZES: dict[Example, dict[str, int]] = {
    LINEAR: {"Z": 1, "H": 1, "T": 640, "HEAD_V": 128},
    BACKWARD: {"Z": 1, "H": 1, "N_CTX": 384},
    BACKWARD_CAUSAL: {"Z": 1, "H": 1, "N_CTX": 384},
}


def said(one: Example, sizes: dict[str, int], change: Callable[[str], str] = str) -> list[str]:
    made, problem = compiled(one), problem_of(kernel(one).specialization)
    assert problem is not None
    ptx = change(made.build.ptx)
    given = launch(kernel(one).program, problem.case(sizes), data="normal")
    return execute.verified(ptx, made.manifest, made.program, given, 1).said()


@pytest.mark.parametrize("one", SIZES, ids=[one.name for one in SIZES])
def test_what_is_emitted_computes_its_tile_program(one: Example) -> None:
    made = compiled(one)
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)
    assert said(one, SIZES[one]) == []


@pytest.mark.parametrize("one", [LINEAR, BACKWARD_CAUSAL], ids=["linear", "backward"])
def test_the_abstract_machine_consents(one: Example) -> None:
    found = verify(lowered(one), problem_of(kernel(one).specialization))
    assert [violation.describe() for violation in found] == []


def test_five_accumulators_of_the_backward_pass_take_all_columns_and_p_lies_over_s() -> None:
    program = lowered(BACKWARD)
    assert {b.name: (b.offset, b.shape) for b in program.buffers if b.tensor} == {
        "qkT": (0, (128, 64)), "dv": (64, (128, 128)), "dpT": (192, (128, 64)), "dk": (256, (128, 128)),
        "dq": (384, (64, 128)), "dv 2": (0, (128, 64)),
    }  # fmt: skip
    assert program.tensor_columns == 512


def test_a_warp_has_16_neighbouring_rows_of_64_and_32_of_128() -> None:
    layouts = {f.name: f.layout for f in lowered(BACKWARD).groups[0].fragments}
    assert layouts["dq"] == Accumulator(64, 128, 16) and layouts["qkT"] == Accumulator(128, 64, 32)
    text = compiled(BACKWARD).printed.text
    assert "lane_row = warp * 16 + lane / 4, lane_row_32 = warp * 32 + lane / 4," in text


def test_an_operand_of_64_rows_is_not_put_into_tensor_memory_where_it_would_have_to_be_twice() -> None:
    program = lowered(LINEAR)
    assert not [b for b in program.buffers if b.tensor and b.element == "bf16"]
    stored = next(b for b in program.buffers if not b.tensor and b.name == "o" and b.shape == (64, 64))
    moved = replace(stored, tensor=True, offset=256, swizzle=0, panel=128, bytes=64 * 32 * 4)
    buffers = tuple(moved if b == stored else b for b in program.buffers)
    assert "64 rows, which would have to be there twice" in str(static_violations(replace(program, buffers=buffers)))


def test_tensor_memory_of_64_rows_is_as_wide_as_that_of_128() -> None:
    def tile(rows: int, columns: int) -> Tile:
        return Tile(shape=(rows, columns), dims=(0, 1), dtype="f32")

    assert tensor_bytes(tile(64, 128), 1, 128) == tensor_bytes(tile(128, 128), 1, 128) == 65536
    assert tensor_bytes(tile(256, 64), 2, 128) == 32768


def test_rows_that_no_product_has_are_refused_with_both_numbers() -> None:
    target = target_of(machine())
    assert [rows for rows in (32, 64, 96, 128, 192, 256) if target.has_result(rows, 64)] == [64, 128]
    assert target.sizes == "128 or 64 rows, columns in 16s up to 256"


def gemm_of_64_rows() -> tuple[Extracted, Schedule]:
    signature = ("a_desc=tensordesc<bf16[64,64]>", "c_desc=tensordesc<bf16[64,128]>")
    found = extract("examples/gemm.py", "bf16", signature, ("BLOCK_M=64",), Allowed(conditional=False))
    return found, solve(found.graph, machine(), SolveOptions(fuse=False))


@pytest.mark.parametrize("one", ["gemm", "linear"])
def test_a_module_of_gluon_has_results_of_64_rows(one: str) -> None:
    read, found = gemm_of_64_rows() if one == "gemm" else (kernel(LINEAR), schedule(LINEAR))
    made = emit_gluon(read, machine(), lambda *_: found)
    assert any(fact.said.startswith("tcgen05_mma: m64n") for fact in made.module.facts)
    assert made.compiled.local == 0 and "tcgen05.ld.sync.aligned.16x32bx2" in made.compiled.ptx
    assert "equal to the tile program, nothing found" in checked(made, read.specialization)


def test_gluon_has_no_words_for_other_rows_than_128_and_64() -> None:
    program = next(lowerings(kernel(LINEAR).wired, schedule(LINEAR), machine()))
    buffers = tuple(replace(b, shape=(32, b.shape[1])) if b.tensor else b for b in program.buffers)
    (_, what, instead) = next(reasons(replace(program, buffers=buffers), 16))
    assert "the 32 rows of" in what and "128 or 64 rows" in instead


# ---------------------------------------------------------------- what is wrong is found

# (That dS may be overwritten, that dK and dV are complete, and that they may begin anew follows from dQ and P, too.)
FAULTS: dict[str, tuple[Example, str, type[Any], str, set[str]]] = {
    "dP is not waited for": (BACKWARD, "softmax", ir.Get, "dpT_get", {"order", "phase"}),
    "dP is not given back": (BACKWARD, "softmax", ir.Consumed, "dpT_get", {"deadlock"}),
    "dQ is read before it is complete": (BACKWARD, "softmax", ir.Get, "dq_get", {"order", "phase"}),
    "dQ is made while the one before is read": (BACKWARD, "mma", ir.Acquire, "dq_put", {"order"}),
    "dS is not handed on": (BACKWARD, "softmax", ir.Publish, "dsT_put", {"deadlock"}),
    "dV is not handed on": (BACKWARD, "mma", ir.Publish, "dv_put", {"deadlock"}),
    "the state is not waited for": (LINEAR, "compute 0", ir.Get, "state_get", {"order", "phase"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_by_the_abstract_machine(name: str) -> None:
    one, role, kind, cursor, rules = FAULTS[name]
    program = lowered(one)
    wrong = changed(program, role, at(program, kind, cursor))
    assert wrong != program
    found = verify(wrong, problem_of(kernel(one).specialization), enough=3)
    assert rules & {violation.rule for violation in found}, [v.describe() for v in found]


def as_128_rows(ptx: str) -> str:
    """Products of 64 rows that say that they have 128: bits 24 to 28 of the instruction descriptor."""
    rows = re.compile(r"(tcgen05\.mma\.\S+ +\[[^\]]*\], *\S+, *\S+, *)(\S+)(,)")
    numbers = dict(re.findall(r"mov\.b32\s+(%r\d+),\s*(\d+);", ptx))

    def wider(found: re.Match[str]) -> str:
        number = int(numbers.get(str(found[2]), str(found[2])))
        return f"{found[1]}{number & ~(31 << 24) | 8 << 24}{found[3]}"

    return rows.sub(wider, ptx)


def from_the_other_half(ptx: str) -> str:
    """Loads of 64 rows by a form that has 32 lanes of a warp."""
    return re.sub(r"tcgen05\.ld\.sync\.aligned\.16x256b\.x8", "tcgen05.ld.sync.aligned.16x64b.x32", ptx)


PRINTED: dict[str, Callable[[str], str]] = {
    "products say that they have 128 rows": as_128_rows,
    "tensor memory is read by another form": from_the_other_half,
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_fault_of_the_printer_is_found_by_the_executor(name: str) -> None:
    assert PRINTED[name](compiled(LINEAR).build.ptx) != compiled(LINEAR).build.ptx
    assert said(LINEAR, {"Z": 1, "H": 1, "T": 128, "HEAD_V": 64}, PRINTED[name])
