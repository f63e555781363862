"""Reductions of several tiles, and the largest or least element with its index, are emitted for every layout, and the
machine code computes what the tile program does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.generated.kernels import by_twill, held
from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.translate.translate import tile_program
from twill.trial.execute import checked

KERNELS = """
@triton.jit
def both(a, b, c, d):
    return a + c, tl.maximum(b, d)


@triton.jit
def vectors(x, y, z, n):
    row = tl.program_id(0)
    v = tl.load(x + row * 256 + tl.arange(0, 256))
    w = tl.load(z + row * 256 + tl.arange(0, 256))
    most, where = tl.max(v, 0, return_indices=True)
    total, top = tl.reduce((v.to(tl.float32), w), 0, both)
    tl.store(y + row * 4, most.to(tl.float32) + total)
    tl.store(z + row * 256 + tl.arange(0, 256), w + where * n + tl.argmin(w & 3, 0) + top)


@triton.jit
def matrices(x, y, z, n):
    rows, columns = tl.arange(0, 16), tl.arange(0, 32)
    at = tl.program_id(0) * 512 + rows[:, None] * 32 + columns[None, :]
    v, w = tl.load(x + at), tl.load(z + at)
    least, where = tl.min(v, 1, return_indices=True)
    tl.store(y + at, w.to(tl.float32) + least[:, None])
    tl.store(z + at, tl.argmax(w & 3, 0)[None, :] + where[:, None])


@triton.jit
def accumulators(x, y, z, n):
    rows, columns = tl.arange(0, 64), tl.arange(0, 64)
    at = rows[:, None] * 64 + columns[None, :]
    acc = tl.zeros([64, 64], tl.float32)
    for i in range(n):
        t = tl.load(x + i * 4096 + at)
        acc = tl.dot(t, t, acc)
    tl.store(y + rows, tl.max(acc, 1))
    tl.store(z + rows, tl.argmax(acc, 1, tie_break_left=False))
    tl.store(z + 64 + columns, tl.argmin(acc, 0))


@triton.jit
def row(x, y, z, n):
    most, where = tl.max(tl.load(x + tl.arange(0, 16)), 0, return_indices=True)
    tl.store(y, most)
    tl.store(z, where)


@triton.jit
def larger(a, b, c, d):
    keep = a > c
    return tl.where(keep, a, c), tl.where(keep, b, d)


@triton.jit
def payload(x, y, z, n):
    v = tl.load(x + tl.arange(0, 16)).to(tl.float32)
    most, other = tl.reduce((v, v * 1e20), 0, larger)
    tl.store(y, most + other)
"""
SIGNATURE = ["x=*fp16:16", "y=*fp32:16", "z=*i32:16", "n=i32"]


@pytest.mark.parametrize("name", ["vectors", "matrices", "accumulators"])
def test_indexed_reductions_of_any_layout_are_emitted(kernel_file: Callable[..., str], name: str) -> None:
    kernel = extract(f"{kernel_file(KERNELS)}::{name}", sig=SIGNATURE)
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic"))
    checked(emit_scheduled(kernel, H100, schedule))


@pytest.mark.parametrize("name", ["vectors", "matrices"])
def test_the_first_of_equal_elements_is_tritons(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(KERNELS)}::{name}", sig=SIGNATURE)
    for one in held(spec, Case({}, (1,), {"x": (512,), "y": (512,), "z": (512,)}, {"n": 1})):
        assert one.furthest < 64, one


@pytest.mark.parametrize(
    ("numbers", "most", "where"),
    [
        ({3: 2.0, 5: 2.0, 1: np.nan}, 2.0, 3),
        ({at: -np.inf for at in range(16)}, -np.inf, 0),
        ({at: np.nan for at in range(16)}, np.nan, 0),
        ({**{at: np.nan for at in range(16)}, 7: -np.inf}, -np.inf, 7),
    ],
)
def test_the_index_is_that_of_an_element_and_nan_is_none(
    kernel_file: Callable[..., str], numbers: dict[int, float], most: float, where: int
) -> None:
    program = resolve_accesses(tile_program(resolve(f"{kernel_file(KERNELS)}::row", sig=SIGNATURE)))
    x = np.zeros(16, np.float32)
    x[[*numbers]] = [*numbers.values()]
    data = {"x": x, "y": np.zeros(1, np.float32), "z": np.zeros(1, np.int32)}
    made = by_twill(program, Case({}, (1,), {name: array.shape for name, array in data.items()}, {"n": 1}), data)
    np.testing.assert_array_equal((made["y"][0], made["z"][0]), (most, where))


def test_a_float_that_goes_along_with_the_largest_element_is_no_index(kernel_file: Callable[..., str]) -> None:
    """There is no float that is larger than all, as the largest integer is for those that are not chosen."""
    program = tile_program(resolve(f"{kernel_file(KERNELS)}::payload", sig=SIGNATURE))
    assert not any(op.kind == "reduce" for op in program.ops())
