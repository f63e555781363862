"""Promises of `twill.tile.access.hoist`: scalars that a loop does not change leave it, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

from twill.kernel.specialization import resolve
from twill.tile.access.hoist import hoist_scalars
from twill.tile.program import Loop, Op, TileProgram
from twill.tile.translate.translate import tile_program

SOURCE = """
@triton.jit
def kernel(X, Y, N, S):
    i = tl.arange(0, 16)
    for k in range(0, N):
        start = tl.program_id(0) * S + 3
        half = (S + tl.program_id(1)) // 2
        part = N // S
        x = tl.load(X + start + half + part + k * S + i)
        tl.store(Y + k * 16 + i, x)
"""


def kinds(items: tuple[Op | Loop, ...]) -> list[str]:
    return [item.kind for item in items if isinstance(item, Op)]


def loop_of(program: TileProgram) -> Loop:
    return next(item for item in program.body if isinstance(item, Loop))


def test_invariant_scalars_leave_the_loop(kernel_file: Callable[..., str]) -> None:
    sig = ("X=*fp32", "Y=*fp32", "N=i32", "S=i32")
    before = tile_program(resolve(kernel_file(SOURCE), sig=sig))
    after = hoist_scalars(before)
    inside, outside = kinds(loop_of(after).body), kinds(after.body)
    assert kinds(loop_of(before).body).count("program_id") == 2
    assert "program_id" not in inside and outside.count("program_id") == 2
    assert "div" in outside  # by 2
    assert inside.count("mul") == 2  # k * S, k * 16
    assert "load" in inside and "store" in inside
    assert sorted(kinds(before.body) + kinds(loop_of(before).body)) == sorted(inside + outside)


def test_a_division_that_could_be_by_zero_stays(kernel_file: Callable[..., str]) -> None:
    sig = ("X=*fp32", "Y=*fp32", "N=i32", "S=i32")
    source = SOURCE.replace("N // S", "tl.program_id(2) // S")
    inside = kinds(loop_of(hoist_scalars(tile_program(resolve(kernel_file(source), sig=sig)))).body)
    assert inside.count("div") == 1
