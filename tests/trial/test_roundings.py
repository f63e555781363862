"""Promises about results that roundings alone move: what no kernel defines is told from what every kernel has to
leave."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from twill.codegen.verify.abstract.inputs import launch
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.program import TileProgram
from twill.tile.translate.translate import tile_program
from twill.trial import roundings
from twill.trial.roundings import apart, moved_by_roundings

ITERATION = """
@triton.jit
def k(x, y, z, n, F: tl.constexpr, B: tl.constexpr):
    at = tl.arange(0, B)
    v = tl.load(x + at)
    p = v * v / (1 + v * v)
    for i in range(n):
        p = F * p * (1 - p)
    tl.store(y + at, p)
    tl.store(z + at, v + tl.sum(v * v, 0))
"""


@pytest.mark.parametrize(("factor", "defined"), [(2.5, True), (3.9, False)])
def test_an_iteration_that_does_not_converge_defines_no_result(
    kernel_file: Callable[..., str], factor: float, defined: bool
) -> None:
    """p ↦ f p (1 − p) goes to 1 − 1 / f for f = 2.5 and is chaotic for f = 3.9."""
    sig, const = ["x=*fp32:16", "y=*fp32:16", "z=*fp32:16", "n=i32"], [f"F={factor}", "B=256"]
    program = resolve_accesses(tile_program(resolve(f"{kernel_file(ITERATION)}::k", sig=sig, const=const)))
    made = launch(program, Case({}, (1,), dict.fromkeys("xyz", (256,)), {"n": 100}))
    moved = moved_by_roundings(program, made)
    assert set(moved) == {"y", "z"} and moved["z"] < 1e-5
    assert moved["y"] < 1e-5 if defined else moved["y"] > 0.1


def test_no_numbers_in_the_same_places_are_equal_and_elsewhere_infinitely_far() -> None:
    some = np.array([1.0, np.nan, np.inf, 4.0], np.float32)
    assert apart(some, some) == 0
    assert apart(np.array([1.0, 2.0, np.inf, 4.0], np.float32), some) == float("inf")
    assert 0 < apart(np.array([1.0, np.nan, np.inf, 4.5], np.float32), some) < 0.2


def test_what_one_draw_of_roundings_happens_to_leave_another_moves(
    kernel_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sig, const = ["x=*fp32:16", "y=*fp32:16", "z=*fp32:16", "n=i32"], ["F=2.5", "B=256"]
    program = resolve_accesses(tile_program(resolve(f"{kernel_file(ITERATION)}::k", sig=sig, const=const)))

    def shaken(
        program: TileProgram,
        grid: object,
        tensors: dict[str, Array],
        scalars: object,
        narrowed: object,
        cut: object,
        draw: int,
    ) -> None:
        tensors["y"][:], tensors["z"][:] = made.arrays["y"], made.arrays["z"]
        tensors["z" if draw == 1 else "y"][:] += 1000.0 * (draw in (1, 3))

    monkeypatch.setattr(roundings, "run", lambda program, grid, tensors, scalars: None)
    monkeypatch.setattr(roundings, "run_shaken", shaken)
    made = launch(program, Case({}, (1,), dict.fromkeys("xyz", (256,)), {"n": 1}))
    assert all(far > 100 for far in moved_by_roundings(program, made).values())


SQUARES = """
@triton.jit
def k(x, y, B: tl.constexpr):
    at = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    v = tl.load(x + at)
    tl.store(y + at, tl.dot(v, v, input_precision="tf32"))
"""


def test_operands_of_tf32_are_cut_off_as_well(kernel_file: Callable[..., str]) -> None:
    """Triton leaves f32 to the tensor core, which rounds nothing: each operand is up to 2^-10 smaller."""
    const, sig = ["B=64"], ["x=*fp32:16", "y=*fp32:16"]
    program = resolve_accesses(tile_program(resolve(f"{kernel_file(SQUARES)}::k", sig=sig, const=const)))
    made = launch(program, Case({}, (1,), {"x": (4096,), "y": (4096,)}, {}))
    made.arrays["x"][:] = 1 + 2.0**-11 + 2.0**-12  # cut off to 1
    assert moved_by_roundings(program, made)["y"] > 1.4 * 2.0**-10
