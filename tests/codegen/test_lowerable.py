"""Promises of `twill.codegen.lowerable`: what no schedule can make a warp program of is refused at its line before a
solve, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.golden_schedules import Example, kernel
from tests.kernels import H100
from tests.tile_programs import Programs, gemm
from twill import exc
from twill.cli import main
from twill.codegen import emission, lowerable
from twill.codegen.emission import extract
from twill.codegen.lowerable import refuse_unlowerable
from twill.codegen.targets.base import MmaShapes, target_of
from twill.graph.build import wire
from twill.machine.file import load_machine
from twill.schedule.document import Schedule
from twill.tile.affine import Polynomial
from twill.tile.program import TileProgram


def doubled_before_a_product(columns: int) -> TileProgram:
    """A product, and beside it a matrix of `columns` columns that is added to itself."""
    program = Programs()
    program.argument("X")
    trips = program.argument("trips")
    with program.loop(trips, [program.constant(0.0, (64, 64), "f32")]) as k:
        a, b = program.load("A", (64, 64), at=(0, k.i * 64)), program.load("B", (64, 64), at=(k.i * 64, 0))
        k.yields = [program.dot(a, b, k.carried[0])]
    program.store("Y", k.results[0])
    x = program.load("X", (64, columns), "f32", name="x")
    program.store("Z", program.op("add", x, x, name="twice"))
    return program.done()


def constant_product() -> TileProgram:
    """A product of a tile that is the same number everywhere."""
    program = Programs()
    x = program.load("X", (64, 64), at=(Polynomial.symbol(program.op("program_id", axis=0)) * 64, 0))
    program.store("Y", program.dot(program.constant(1.0, (64, 64), "f16"), x))
    return program.done()


def cube() -> TileProgram:
    """The sums of a tile along its middle axis."""
    program = Programs()
    x = program.load("X", (4, 8, 16), "f32", at=(Polynomial.symbol(program.op("program_id", axis=0)) * 4, 0, 0))
    program.store("Y", program.reduce(x, 1, "add"))
    return program.done()


@pytest.mark.parametrize(("program", "words", "line"), [
    (constant_product(), "a product of a constant tile", 5),
    (cube(), "a reduction of axis 1 of", 3),
], ids=["product", "reduction"])  # fmt: skip
def test_what_has_no_statement_is_refused_at_its_line_before_anything_is_solved(
    program: TileProgram, words: str, line: int, at_root: object
) -> None:
    asked = replace(kernel(Example("examples/gemm.py", "bf16")), wired=wire(program))

    def solver(graph: object, machine: object) -> Schedule:
        raise AssertionError("solved")

    with pytest.raises(exc.UnsupportedInKernel, match=words) as refused:
        emission.emit_solved(asked, H100, solver)
    assert (refused.value.file, refused.value.line) == ("k.py", line) and refused.value.hint


def test_tiles_beyond_shared_memory_are_refused_before_anything_is_solved(kernel_file: Callable[..., str]) -> None:
    """However many rows a warp group has: a product's operands are all there."""
    text = """
    @triton.jit
    def k(a, b, c, K: tl.constexpr):
        r, d = tl.arange(0, 128), tl.arange(0, K)
        x, y = tl.load(a + r[:, None] * K + d[None, :]), tl.load(b + r[:, None] * K + d[None, :])
        tl.store(c + r[:, None] * 128 + r[None, :], tl.dot(x, tl.trans(y)).to(tl.bfloat16))
    """
    signature = [f"{name}=*bf16:16" for name in "abc"]
    path = kernel_file(text)

    def refused(depth: int) -> Schedule | None:
        return refuse_unlowerable(extract(f"{path}::k", sig=signature, const=[f"K={depth}"]).wired, H100)

    assert refused(256) is not None
    with pytest.raises(exc.Infeasible, match="one slot for each tile in shared memory takes 2.*KiB") as error:
        refused(512)
    assert error.value.line and error.value.hint == "smaller tiles"


READ_TOGETHER = """
@triton.jit
def k(q, k_ptr, v_ptr, o_ptr, N, B: tl.constexpr, D: tl.constexpr):
    r, c = tl.arange(0, 64), tl.arange(0, D)
    b_q, acc = tl.load(q + (tl.program_id(0) * 64 + r)[:, None] * D + c[None, :]), tl.zeros((64,), tl.float32)
    for i in range(0, N, B):
        at = (i + tl.arange(0, B))[:, None] * D + c[None, :]
        s = tl.exp(tl.dot(b_q, tl.trans(tl.load(k_ptr + at))))
        t = tl.exp(tl.dot(b_q, tl.trans(tl.load(v_ptr + at))))
        acc += tl.sum(s * t, 1)
    tl.store(o_ptr + tl.program_id(0) * 64 + r, acc)
"""

CARRIED = """
@triton.jit
def k(q, k_ptr, v_ptr, o_ptr, N, B: tl.constexpr, D: tl.constexpr):
    r, c, n = tl.arange(0, 64), tl.arange(0, D), tl.arange(0, B)
    b_q, acc = tl.load(q + (tl.program_id(0) * 64 + r)[:, None] * D + c[None, :]), tl.zeros((64, 64), tl.float32)
    w, x, y, z = (tl.zeros((64, B), tl.float32),) * 4
    for i in range(0, N, 64):
        acc += tl.dot(b_q, tl.trans(tl.load(k_ptr + (i + r)[:, None] * D + c[None, :])))
        v = tl.load(v_ptr + i * B + n).to(tl.float32)[None, :]
        w, x, y, z = w * 0.5 + v, x * 0.25 + v, y * 0.125 + v, z * 2.0 + v
    found = tl.sum(acc, 1) + tl.sum(w, 1) * tl.sum(x, 1) + tl.sum(y, 1) * tl.sum(z, 1)
    tl.store(o_ptr + tl.program_id(0) * 64 + r, found)
"""


def before_a_solve(path: str, columns: int) -> Schedule:
    signature = [*(f"{name}=*bf16:16" for name in ("q", "k_ptr", "v_ptr")), "o_ptr=*fp32:16", "N=i32:16"]
    return refuse_unlowerable(extract(f"{path}::k", sig=signature, const=[f"B={columns}", "D=64"]).wired, H100)


def test_tiles_that_one_statement_reads_are_refused_where_no_warp_group_has_the_registers(
    kernel_file: Callable[..., str],
) -> None:
    """Two results of 64 x 256 in f32 are 256 registers of a thread, and their rows cannot be cut."""
    path = kernel_file(READ_TOGETHER)
    assert before_a_solve(path, 64).strategy == "none"
    with pytest.raises(
        exc.Infeasible, match="s, t, acc: 258 registers a thread are read together, and a warp group has 216"
    ):
        before_a_solve(path, 256)


def test_a_loop_without_room_in_any_warp_groups_is_refused_with_what_it_lacks(kernel_file: Callable[..., str]) -> None:
    """No statement reads more than a warp group has, but four tiles of 128 registers are always alive."""
    path = kernel_file(CARRIED)
    assert before_a_solve(path, 64).strategy == "none"
    with pytest.raises(
        exc.UnsupportedInKernel, match=r"this loop lack \d+ registers a thread on h100 even one"
    ) as error:
        before_a_solve(path, 256)
    assert error.value.line == 8 and "smaller tiles" in str(error.value.hint)


def test_a_tile_that_the_target_has_is_not_refused() -> None:
    refuse_unlowerable(wire(doubled_before_a_product(16)), H100)


def test_a_refusal_goes_when_the_target_can_do_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the target says which products there are."""
    small = wire(gemm(8, 64))
    with pytest.raises(exc.UnsupportedInKernel, match="a product of 8 x 64"):
        refuse_unlowerable(small, H100)
    able = replace(target_of(H100), mma=MmaShapes(rows=8, columns=8, depth=16))
    monkeypatch.setattr(lowerable, "target_of", lambda machine: able)
    monkeypatch.setattr("twill.codegen.lower.streams.target_of", lambda machine: able)
    refuse_unlowerable(small, H100)


@pytest.mark.parametrize("error", [
    exc.UnsupportedBySchedule("budgets"), exc.SharedMemoryFull("rings"),
], ids=["schedule", "shared memory"])  # fmt: skip
def test_what_another_schedule_may_do_is_left_to_the_solve(
    error: exc.TwillError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def streams(*given: object) -> None:
        raise error

    monkeypatch.setattr(lowerable, "streams", streams)
    refuse_unlowerable(wire(gemm()), H100)


@pytest.mark.parametrize(("path", "spec"), [
    ("attention.py", "causal"), ("attention_backward.py", "full"), ("attention_any_length.py", "causal-d64"),
    ("linear_attention.py", "bf16"), ("layer_norm.py", "bf16-widest"), ("gemm_fp8.py", "e4m3-wide"),
])  # fmt: skip
def test_kernels_that_are_emitted_pass(path: str, spec: str, at_root: object) -> None:
    refuse_unlowerable(kernel(Example(f"examples/{path}", spec)).wired, H100)


KERNEL = """
import triton
import triton.language as tl

@triton.jit
def product(x_ptr, y_ptr, M, N, B: tl.constexpr):
    r = tl.program_id(0) * 8 + tl.arange(0, 8)
    c = tl.program_id(1) * B + tl.arange(0, B)
    x, w = tl.load(x_ptr + r[:, None] * N + c[None, :]), tl.load(x_ptr + c[:, None] * N + c[None, :])
    tl.store(y_ptr + r[:, None] * N + c[None, :], tl.dot(x, w).to(tl.bfloat16))
"""
SIGNATURE = ("--sig", "x_ptr=*bf16:16", "--sig", "y_ptr=*bf16:16", "--sig", "M=i32:16", "--sig", "N=i32:16", "--const",
             "B=64")  # fmt: skip


def test_a_solve_notes_what_cannot_be_emitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    assert main(["solve", str(tmp_path / "k.py"), *SIGNATURE, "--machine", "h100", "--no-store"]) == 0
    said = capsys.readouterr().err
    assert "note: it can be solved but not emitted" in said and "k.py:10: `dot` is a product of 8 x 64 x 64" in said


def test_a_machine_that_no_code_is_made_for_is_solved_for_without_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described = (ROOT / "machines" / "b200.toml").read_text(encoding="utf-8")
    path = tmp_path / "later.toml"
    path.write_text(described.replace('name = "b200"', 'name = "later"').replace('"sm_100a"', '"sm_120a"'))
    with pytest.raises(exc.NoTarget):
        refuse_unlowerable(wire(constant_product()), load_machine(str(path)))
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    assert main(["solve", str(tmp_path / "k.py"), *SIGNATURE, "--machine", str(path), "--no-store"]) == 0
    assert "not emitted" not in capsys.readouterr().err
