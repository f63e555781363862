"""A vector along rows and columns is made once for each, and the program computes what it did."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret.sequential import run
from twill.tile.program import TileProgram
from twill.tile.rewrite.vector_sides import separate_sides
from twill.tile.translate.translate import tile_program

HEAD = (
    "@triton.jit\ndef k(x, g, y):\n    i = tl.arange(0, 64)\n    ij = i[:, None] * 64 + i[None, :]\n"
    "    t = tl.load(x + ij)\n    a = tl.dot(t, t)\n"
)
SIG = ["x=*fp16:16", "g=*fp32:16", "y=*fp32:16"]


def program(kernel_file: Callable[..., str], *lines: str) -> TileProgram:
    text = HEAD + "".join(f"    {line}\n" for line in lines) + "    tl.store(y + ij, a)\n"
    return resolve_accesses(tile_program(resolve(f"{kernel_file(text)}::k", sig=SIG)))


def loads(program: TileProgram, base: str) -> int:
    return sum(op.kind == "tile_load" and op.access is not None and op.access.base == base for op in program.ops())


def result(program: TileProgram) -> np.ndarray:
    rng = np.random.default_rng(0)
    tensors = {
        "x": rng.standard_normal(4096).astype(np.float16).astype(np.float32),
        "g": rng.standard_normal(64).astype(np.float32),
        "y": np.zeros(4096, np.float32),
    }
    run(program, (1,), tensors, {})
    return tensors["y"]


def test_what_is_loaded_for_both_sides_is_loaded_twice(kernel_file: Callable[..., str]) -> None:
    before = program(kernel_file, "v = tl.load(g + i)", "a = a * tl.exp(v[:, None] - v[None, :])")
    after = separate_sides(before)
    assert (loads(before, "g"), loads(after, "g")) == (1, 2)
    np.testing.assert_array_equal(result(after), result(before))


def test_what_is_computed_of_it_follows(kernel_file: Callable[..., str]) -> None:
    before = program(
        kernel_file, "v = tl.load(g + i)", "e = tl.exp(v) * 2", "a = a * e[:, None] + v[None, :]", "a -= e[None, :]"
    )
    after = separate_sides(before)
    assert loads(after, "g") == 2
    assert sum(op.kind == "exp" for op in after.ops()) == 2
    np.testing.assert_array_equal(result(after), result(before))


def test_a_vector_of_one_side_stays_one(kernel_file: Callable[..., str]) -> None:
    before = program(kernel_file, "v = tl.load(g + i)", "a = a * v[:, None] + tl.exp(v)[:, None]")
    assert separate_sides(before) is before


def test_sums_of_a_matrix_are_not_made_twice(kernel_file: Callable[..., str]) -> None:
    """They lie along one side; making them again is a product more."""
    before = program(kernel_file, "v = tl.sum(a, 1)", "a = a * v[:, None] + v[None, :]")
    assert separate_sides(before) is before
