"""Promises of `twill.codegen.lower.streamed_tiles`: where no instance reads another one's tiles, rings are as deep as
memory needs, and instances whose rows lie side by side are walked one after the other."""

from __future__ import annotations

from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.kernels import H100
from tests.lowered import plan_of, scheduled
from tests.tile_programs import gemm
from twill import exc
from twill.codegen.emission import Extracted, emit_solved, extract
from twill.codegen.lower.streamed_tiles import lie_side_by_side, streamed
from twill.codegen.lowering import lower
from twill.codegen.room import Roomier
from twill.codegen.verify.abstract.static import static_violations
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import WarpProgram
from twill.codegen.warp.text import text
from twill.graph.build import wire
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import problem_of
from twill.machine.description import Machine
from twill.schedule.document import INSTANCES, Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

FILE = f"{ROOT / 'benchmarks' / 'paged_kernels.py'}::paged_decode"
TYPES = {
    **{name: "*bf16:16" for name in ("q_ptr", "k_ptr", "v_ptr", "o_ptr")},
    **{name: "*i32:16" for name in ("table_ptr", "length_ptr")},
    **{name: "i32:16" for name in ("most", "page_stride", "row_stride")},
    "scale": "fp32",
}
SIG = [f"{name}={kind}" for name, kind in TYPES.items()]


@cache
def decode() -> Extracted:
    return extract(FILE, sig=SIG, const=["GROUP=16", "D=128", "PAGE=32"])


@cache
def apart() -> Schedule:
    """A schedule whose iterations do not overlap."""
    return solve(decode().graph, H100, SolveOptions(strategy="none"))


def with_memory(rate: float | None) -> Machine:
    """A machine whose memory brings each SM so many bytes in a cycle."""
    figure = None if rate is None else H100.emitting.streamed.model_copy(update={"value": rate})
    return H100.model_copy(update={"emission": H100.emitting.model_copy(update={"memory_rate": figure})})


@cache
def lowered() -> WarpProgram:
    made = lower(decode().wired, apart(), with_memory(None))
    assert verify(made, problem_of(decode().specialization)) == ()
    return made


def test_rings_of_tiles_that_no_other_instance_reads_hold_what_keeps_memory_busy() -> None:
    program = lowered()
    rings = [aref for aref in program.arefs if aref.name in ("k", "v")]
    each = sum(aref.depth * aref.bytes for aref in rings)
    slots = sum(aref.bytes for aref in rings)
    assert each == max(H100.emitting.streamed.whole // program.ctas, 2 * slots)  # and not all that is free
    assert program.ctas * program.shared < 0.8 * H100.capacity("shared")


def test_small_products_that_wait_for_one_another_share_their_sm() -> None:
    """Scores of 16 queries, their softmax and the products with it: one after the other, and none of it long."""
    program = lowered()
    assert program.ctas > 1 and not any(group.registers for group in program.groups)
    assert static_violations(program) == ()


def test_no_more_ctas_share_an_sm_than_compute_as_fast_as_memory_brings_tiles() -> None:
    (loop,) = (one for one in apart().loops if one.trip != INSTANCES)
    arriving = 2 * 32 * 128 * 2  # bytes of keys and values
    most = lowered().ctas
    for ctas in range(1, most + 1):
        as_fast = arriving * ctas / loop.ii
        made = lower(decode().wired, apart(), with_memory(as_fast))
        assert made.ctas == ctas
    faster = lower(decode().wired, apart(), with_memory(arriving * most / loop.ii * 1.01))
    assert faster.ctas == most  # the registers of another one are not there


def test_instances_whose_rows_lie_side_by_side_follow_one_another() -> None:
    """Rows of a page have the keys of all heads, which are axis 1 of the launch grid."""
    plan = plan_of(decode().wired, apart())
    assert streamed(plan) and lie_side_by_side(plan)
    assert "define first_row = ((in_layer / (1 * num_programs(1))) * 1)" in text(lowered())


def test_operands_that_other_instances_read_too_are_not_streamed() -> None:
    program = gemm()
    plan = plan_of(wire(program), scheduled(program))
    assert not streamed(plan) and not lie_side_by_side(plan)


def test_mmas_that_the_compiler_would_serialize_beside_other_work_are_scheduled_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once, and only where registers kept free have led to no schedule."""
    overlapped, asked = apart().model_copy(update={"strategy": "joint"}), count()

    def first_only(graph: DependenceGraph, machine: Machine) -> Schedule:
        if next(asked):
            raise exc.Infeasible("there is no schedule with so many registers free")
        return overlapped

    answers: list[Roomier | None] = []

    def refused(*given: Any) -> None:
        roomier = next(one for one in given if getattr(one, "__name__", "") == "roomier")
        for cause, last in (("spill", overlapped), ("serialized", overlapped), ("wait", overlapped), ("wait", apart())):
            answers.append(roomier(Roomier(0, last), exc.BuildRejected(cause, f"it has {cause}", None)))

    monkeypatch.setattr("twill.codegen.emission.emit", refused)
    emit_solved(decode(), H100, first_only)
    assert [one is not None and one.schedule.strategy for one in answers] == ["none", "none", "none", False]


PARTS = """
import triton
import triton.language as tl


@triton.jit
def parts(q, k, out, KEYS, CHUNK, B: tl.constexpr, D: tl.constexpr):
    n, d, r = tl.arange(0, B), tl.arange(0, D), tl.arange(0, 16)
    part, head = tl.program_id(0), tl.program_id(1)
    x = tl.load(q + head * 16 * D + r[:, None] * D + d[None, :])
    best = tl.full((16,), float("-inf"), tl.float32)
    for at in range(part * CHUNK, END, B):
        y = tl.load(k + (head * KEYS + at + n)[:, None] * D + d[None, :])
        best = tl.maximum(best, tl.max(tl.dot(x, tl.trans(y)), 1))
    tl.store(out + (head * tl.num_programs(0) + part) * 16 + r, best)
"""


@pytest.mark.parametrize(
    "end, own", [("part * CHUNK + CHUNK", True), ("tl.minimum(part * CHUNK + CHUNK, KEYS)", True), ("KEYS", False)]
)
def test_instances_that_read_parts_of_a_sequence_read_none_of_each_others(tmp_path: Path, end: str, own: bool) -> None:
    """They begin and end elsewhere. Those that only begin elsewhere read what others do."""
    file = tmp_path / "parts.py"
    file.write_text(PARTS.replace("END", end))
    sig = ["q=*bf16:16", "k=*bf16:16", "out=*fp32:16", "KEYS=i32:16", "CHUNK=i32:16"]
    found = extract(f"{file}::parts", sig=sig, const=["B=64", "D=64"])
    plan = plan_of(found.wired, solve(found.graph, H100, SolveOptions(strategy="none")))
    assert bool(streamed(plan)) == own
