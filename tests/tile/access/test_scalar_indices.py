"""Promises of `twill.tile.access.scalar_indices`: numbers that are computed from data are indices of accesses, and no
part of what everybody computes ahead; the program computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.access.scalar_indices import index_by_scalars
from twill.tile.interpret.sequential import run
from twill.tile.program import Op, TileProgram, reads
from twill.tile.translate.translate import tile_program

HEAD = """
@triton.jit
def k(x, t, y, n, B: tl.constexpr):
    c = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * B + c)
    best = tl.argmax(v, 0)
"""
KERNELS = {
    "a row": "    w = tl.load(t + best * B + c)\n    tl.store(y + tl.program_id(0) * B + c, w)\n",
    "a row of n": "    w = tl.load(t + best * n + c, mask=c < n, other=2.0)\n"
    "    tl.store(y + tl.program_id(0) * B + c, w)\n",
    "one element": "    tl.store(y + tl.program_id(0) * B + best, tl.load(t + best))\n",
}


def read(kernel_file: Callable[..., str], body: str) -> TileProgram:
    sig = ["x=*fp32:16", "t=*fp32:16", "y=*fp32:16", "n=i32"]
    return resolve_accesses(tile_program(resolve(f"{kernel_file(HEAD + body)}::k", sig=sig, const=["B=16"])))


@pytest.mark.parametrize("name", KERNELS)
def test_addresses_that_data_says_have_it_as_an_index(kernel_file: Callable[..., str], name: str) -> None:
    program = read(kernel_file, KERNELS[name])
    made = index_by_scalars(program)
    ops = [op for op in made.body if isinstance(op, Op) and op.access is not None]
    assert sum(bool(op.index_operands) for op in ops) == (2 if name == "one element" else 1)
    best = {result for op in made.ops() for result in op.results if made.values[result].name == "best"}
    assert not any(best & (set(reads(op)) - set(op.operands)) for op in ops)
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(size).astype(np.float32) for n, size in (("x", 48), ("t", 256), ("y", 48))}
    results = []
    for one in (program, made):
        copies = {n: array.copy() for n, array in arrays.items()}
        run(one, (3,), copies, {"n": 13})
        results.append(copies["y"])
    assert np.array_equal(results[0], results[1]) and not np.array_equal(results[0], arrays["y"])


def test_what_data_bounds_has_a_mask_and_no_bounds(kernel_file: Callable[..., str]) -> None:
    """A bound that everybody knows stays one."""
    body = (
        "    w = tl.load(t + c, mask=(c < best) & (c < n), other=0.0)\n    tl.store(y + tl.program_id(0) * B + c, w)\n"
    )
    program = read(kernel_file, body)
    load = next(op for op in program.ops() if op.access is not None and op.access.base == "t")
    assert load.access is not None and load.mask_operand is not None
    assert load.access.axes[0].upper is not None and index_by_scalars(program) is program


def test_what_numbers_of_a_tensor_that_is_only_read_bound_has_bounds(kernel_file: Callable[..., str]) -> None:
    body = "    many = tl.load(t).to(tl.int32)\n    tl.store(y + tl.program_id(0) * B + c, v, mask=c < many)\n"
    program = read(kernel_file, body)
    (store,) = (op for op in program.ops() if op.kind == "tile_store")
    assert store.access is not None and store.access.axes[0].upper is not None and store.mask_operand is None


def test_loads_beside_a_product_keep_bounds_of_data(kernel_file: Callable[..., str]) -> None:
    body = "    z = tl.dot(tl.zeros([B, B], tl.bfloat16), tl.zeros([B, B], tl.bfloat16))\n"
    body += "    w = tl.load(t + c, mask=c < best, other=0.0)\n    tl.store(y + c, tl.sum(z, 0) + w)\n"
    load = next(op for op in read(kernel_file, body).ops() if op.access is not None and op.access.base == "t")
    assert load.mask_operand is None
