"""Promises of `twill.codegen.verify.abstract.free_indices`: where boxes have to begin at multiples of 16 bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests import blackwell, blackwell_kept
from tests.golden_schedules import Example, kernel
from tests.kernels import H100
from tests.places import edit, instead, places
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.free_indices import free_indices
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Number, add
from twill.codegen.warp.program import TmaLoad, TmaStore, WarpProgram
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.access import transport

SHIFTED = """
@triton.jit
def k(x, y, at, B: tl.constexpr):
    t = x.load([tl.program_id(0) * B, {index}])
    y.store([tl.program_id(0) * B, 0], (t.to(tl.float32) * 2).to(tl.bfloat16))
"""
BY_NUMBER = """
@triton.jit
def k(x, y, n, size, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    t = tl.zeros([B, B], tl.float32)
    for i in range(3):
        columns = i * size + c
        inside = (r[:, None] < n) & (columns[None, :] < 256)
        t += tl.load(x + r[:, None] * 256 + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(y + r[:, None] * B + c[None, :], t.to(tl.bfloat16), mask=r[:, None] < n)
"""


@pytest.mark.parametrize(("index", "free"), [("at", {"x"}), ("at * 8", set()), ("at * 4", {"x"}), ("32", set())])
def test_indices_of_a_descriptor_that_the_caller_chooses_are_free(
    index: str, free: set[str], kernel_file: Callable[..., str]
) -> None:
    sig = ("x=tensordesc<bf16[64, 64]>", "y=tensordesc<bf16[64, 64]>", "at=i32")
    extracted = extract(f"{kernel_file(SHIFTED.format(index=index))}::k", sig=sig, const=("B=64",))
    assert free_indices(extracted.program) == free


@pytest.mark.parametrize("example", [blackwell.GEMM, blackwell.FP8, blackwell.MXFP8, blackwell_kept.LINEAR])
def test_examples_have_no_free_indices(example: Example) -> None:
    assert not free_indices(kernel(example).program)


def moved(program: WarpProgram, kind: type[TmaLoad | TmaStore], by: int) -> WarpProgram:
    """The first copy of that kind, from other columns on."""
    place = next(place for place in places(program) if isinstance(place.stmt, kind))
    assert isinstance(place.stmt, TmaLoad | TmaStore)
    *rows, columns = place.stmt.coordinates
    return edit(program, place, instead(replace(place.stmt, coordinates=(*rows, add(columns, Number(by))))))


@pytest.mark.parametrize("kind", [TmaLoad, TmaStore])
def test_a_box_of_a_descriptor_that_begins_between_16_bytes_is_found(kind: type[TmaLoad | TmaStore]) -> None:
    """By eight elements of eight bits, or four of sixteen."""
    by = 8 if kind is TmaLoad else 4
    program = moved(blackwell.lowered(blackwell.FP8), kind, by)
    assert "aligned" in {violation.rule for violation in verify(program)}
    assert "aligned" not in {violation.rule for violation in verify(moved(program, kind, 16 - by))}


def test_a_tile_that_should_not_have_gone_by_the_tma_is_found(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the choice of the way of tiles blind to it: the machine knows by itself where boxes may begin."""
    sig = ("x=*bf16:16", "y=*bf16:16", "n=i32", "size=i32")
    file = kernel_file(BY_NUMBER)

    def rules() -> set[str]:
        extracted = extract(f"{file}::k", sig=sig, const=("B=64",))
        schedule = solve(extracted.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
        return {violation.rule for violation in verify(lower(extracted.wired, schedule, H100))}

    assert rules() == set()
    monkeypatch.setattr(transport, "misplaced", lambda movement, scalars: iter(()))
    assert "aligned" in rules()
