"""Row blocks that more threads have between them than a warp group's 128: where they are needed, and that they compute
what the tile program does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.lower import candidates
from twill.codegen.lower.direct import WIDTHS, direct_schedule
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.layout import Blocked, elements_of, runs
from twill.codegen.warp.program import LoadGlobal, Reduce, StoreGlobal
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

ROWS = """
@triton.jit
def k(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    v = tl.load(x + row + at, mask=at < n, other=0.0).to(tl.float32)
    e = v - tl.max(v, axis=0)
    tl.store(z + tl.program_id(0), tl.sum(e * e, axis=0))
    tl.store(y + row + at, tl.cumsum(e / tl.sum(v * v, axis=0), axis=0).to(tl.bfloat16), mask=at < n)
"""
MATRIX = """
@triton.jit
def k(x, rows, columns, y, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    at = tl.program_id(0) * R * C + i[:, None] * C + j[None, :]
    v = tl.load(x + at)
    most, sums = tl.max(v, 1), tl.sum(v, 0)
    tl.store(rows + tl.program_id(0) * R + i, most)
    tl.store(columns + tl.program_id(0) * C + j, sums)
    tl.store(y + at, v - most[:, None] + sums[None, :] + tl.max(most, 0) * tl.sum(sums, 0))
"""
LOOP = """
@triton.jit
def k(x, y, n, BLOCK: tl.constexpr):
    x += tl.program_id(0) * n
    y += tl.program_id(0) * n
    m = float("-inf")
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        m = tl.maximum(m, tl.max(tl.load(x + at, mask=at < n, other=-float("inf")).to(tl.float32), axis=0))
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y + at, (v - m).to(tl.bfloat16), mask=at < n)
"""
NORM = """
@triton.jit
def k(x, w, b, mean, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    v = tl.load(x + row + at, mask=at < n, other=0.0).to(tl.float32)
    weight = tl.load(w + at, mask=at < n, other=0.0).to(tl.float32)
    bias = tl.load(b + at, mask=at < n, other=0.0).to(tl.float32)
    middle = tl.sum(v, axis=0) / n
    v = tl.where(at < n, v - middle, 0.0)
    scale = tl.rsqrt(tl.sum(v * v, axis=0) / n + 1e-5)
    tl.store(mean + tl.program_id(0), middle)
    tl.store(y + row + at, (v * scale * weight + bias).to(tl.bfloat16), mask=at < n)
"""
TURNED = """
@triton.jit
def k(x, c, y, HEADS: tl.constexpr, HALF: tl.constexpr):
    half = tl.arange(0, HALF)
    at = tl.program_id(0) * HEADS * HALF + tl.arange(0, HEADS)[:, None] * HALF + half[None, :]
    angle = tl.load(c + tl.program_id(0) * HALF + half).to(tl.float32)
    tl.store(y + at, (tl.load(x + at).to(tl.float32) * angle[None, :]).to(tl.bfloat16))
"""
MOVED = """
@triton.jit
def k(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at).to(tl.float32)
    w = v + tl.flip(v)
    halves = tl.reshape(w, (BLOCK // 2, 2))
    a, b = tl.split(halves)
    c = tl.join(b, a * 2)
    tl.store(y + at, tl.reshape(c, (BLOCK,)).to(tl.bfloat16))
    near = tl.gather(w, (at * 7) % BLOCK, 0)
    tl.store(z + at, tl.inline_asm_elementwise("neg.f32 $0, $1;", "=f,f", [near], tl.float32, True, 1), mask=at < n)
"""
VECTORS = ["x=*bf16:16", "y=*bf16:16", "z=*fp32:16", "n=i32:16"]
SIG = {ROWS: VECTORS, MOVED: VECTORS, LOOP: [one for one in VECTORS if one[0] != "z"],
       MATRIX: [f"{name}=*fp32:16" for name in ("x", "rows", "columns", "y")],
       NORM: [*(f"{name}=*bf16:16" for name in ("x", "w", "b", "y")), "mean=*fp32:16", "n=i32:16"],
       TURNED: [f"{name}=*bf16:16" for name in ("x", "c", "y")]}  # fmt: skip


def only(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Every kernel without products in one warp group of so many threads."""
    made = candidates.candidates
    monkeypatch.setattr(candidates, "direct_schedules", lambda s, m: [(threads, direct_schedule(s, threads))])
    monkeypatch.setattr(
        "twill.codegen.emit.candidates", lambda *given: tuple(one for one in made(*given) if one.direct)
    )


@pytest.mark.parametrize(("text", "threads", "const"), [
    (ROWS, 256, ["BLOCK=1024"]), (ROWS, 1024, ["BLOCK=2048"]), (ROWS, 512, ["BLOCK=256"]), (LOOP, 512, ["BLOCK=512"]),
    (MATRIX, 256, ["R=16", "C=32"]), (MATRIX, 512, ["R=2", "C=2048"]), (MATRIX, 256, ["R=32", "C=64"]),
    (MOVED, 256, ["BLOCK=512"]), (MOVED, 512, ["BLOCK=256"]),
])  # fmt: skip
def test_more_threads_compute_the_same(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch, text: str, threads: int, const: list[str]
) -> None:
    kernel = extract(f"{kernel_file(text)}::k", sig=SIG[text], const=const)
    only(monkeypatch, threads)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    (group,) = emission.program.groups
    assert group.threads == emission.manifest.threads == threads
    checked(emission)
    narrow = replace(emission.program, groups=(replace(group, threads=128),))
    assert any("is dealt to" in violation.describe() for violation in verify(narrow))


def test_a_row_that_128_threads_have_no_room_for_is_solved_for_more(kernel_file: Callable[..., str]) -> None:
    for block, width in ((8192, 1), (32768, 4)):
        kernel = extract(f"{kernel_file(ROWS.replace('tl.cumsum', '').replace(', axis=0).to(tl.b', ').to(tl.b'))}::k",
                         sig=VECTORS, const=[f"BLOCK={block}"])  # fmt: skip
        schedule = solve(kernel.graph, H100)
        assert schedule.cooperation.width == width
        assert ('"width"' in schedule.canonical()) == (width > 1)
        found = candidates.candidates(kernel.program, schedule, H100)
        widest = [one.threads for one in found if one.direct]
        assert set(widest) == set(WIDTHS) and all(one.direct for one in found)
        assert width > 1 or not any(one > 128 for one in widest[: widest.count(128)])  # more threads come last
    assert [one.threads for one in found] == [512, 1024, 128, 256]  # what has room for two tiles comes first
    assert str(found[0]).startswith("1 CTA on an SM, one warp group of 512 threads, loads straight to registers")


def test_tiles_are_dealt_to_all_threads_in_runs_that_give_each_as_many() -> None:
    assert runs((4096,), 512) == Blocked((4096,), 8, 512) and elements_of(runs((4096,), 512)) == 8
    assert runs((2048,), 1024) == Blocked((2048,), 2, 1024)
    assert elements_of(Blocked((100,), 1, 256)) == 1


def test_where_two_rows_share_an_sm_only_if_weights_are_loaded_late_they_are(kernel_file: Callable[..., str]) -> None:
    """At 128 threads a row of 16384, its weight and its bias take all registers of an SM, and loaded one after the
    other, behind the reductions, half of them."""
    for block, late, ctas in ((4096, False, 6), (16384, True, 2)):
        kernel = extract(f"{kernel_file(NORM)}::k", sig=SIG[NORM], const=[f"BLOCK={block}"])
        first, *_ = candidates.candidates(kernel.program, solve(kernel.graph, H100), H100)
        assert (first.late, first.ctas, first.threads) == (late, ctas, 128)
        assert ("each where it is read first" in str(first)) == late


def test_what_is_loaded_late_is_what_was_loaded_early(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = extract(f"{kernel_file(NORM)}::k", sig=SIG[NORM], const=["BLOCK=512"])
    made = candidates.candidates
    monkeypatch.setattr("twill.codegen.emit.candidates", lambda *given: (replace(made(*given)[0], late=True),))
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    (group,) = emission.program.groups
    kinds = [type(one) for one in group.body if isinstance(one, LoadGlobal | Reduce | StoreGlobal)]
    assert kinds == [LoadGlobal, Reduce, Reduce, LoadGlobal, LoadGlobal, StoreGlobal, StoreGlobal]
    checked(emission)


def test_a_vector_that_all_rows_of_a_tile_have_is_loaded_as_wide_as_the_tile(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(TURNED)}::k", sig=SIG[TURNED], const=["HEADS=16", "HALF=64"])
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    loads = [line for line in emission.printed.text.splitlines() if "held = *(const" in line]
    assert len(loads) == 2 and all("*(const Vector<u32, 4>*)" in line for line in loads)
    checked(emission)


GATED = """
@triton.jit
def k(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    v = tl.load(x + at).to(tl.float32)
    w = tl.load(y + at).to(tl.float32)
    tl.store(x + at, (v * tl.sigmoid(v) * w).to(tl.bfloat16))
"""


def test_what_goes_from_loads_to_stores_by_elements_is_held_as_it_was_loaded(kernel_file: Callable[..., str]) -> None:
    """Two tiles of 8192 in bf16 are 64 registers of each of 128 threads; a sum of one of them holds it as floats."""
    found = []
    for text in (GATED, GATED.replace("* w)", "* w / tl.sum(v))")):
        kernel = extract(f"{kernel_file(text)}::k", sig=SIG[LOOP], const=["BLOCK=8192"])
        schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))
        found.append(direct_schedule(schedule).warp_groups[0].registers)
        assert candidates.candidates(kernel.program, schedule, H100)[0].ctas == (6 if len(found) == 1 else 2)
    assert found[0] == 2 * 8192 * 2 // (128 * 4) and found[1] > 2 * found[0]
