"""Indices that wrap around or are clipped: affine where no store takes what they bring in, else made one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generated.kernels import held
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.translate.translate import tile_program

SIG = ["x=*fp32:16", "y=*fp32:16", "m=i32"]
HEAD = "@triton.jit\ndef k(x, y, m):\n    i = tl.program_id(0) * 32 + tl.arange(0, 32)\n    j = tl.arange(0, 32)\n"
ROWS = "tl.load(x + {0}[:, None] * 32 + j[None, :])"
STORE = "    tl.store(y + i[:, None] * 32 + j[None, :], v, mask=i[:, None] < m)\n"
RIGHT = {
    "wrapped rows": f"    v = {ROWS.format('(i % m)')}\n" + STORE,
    "rows clipped above": f"    v = {ROWS.format('tl.minimum(i, m - 1)')}\n" + STORE,
    "rows chosen by a mask": f"    v = {ROWS.format('tl.where(i < m, i, 0)')}\n" + STORE,
    "rows clipped below":
        f"    v = {ROWS.format('tl.maximum(i - 3, 0)')}\n"
        + STORE.replace("mask=", "mask=(i[:, None] >= 3) & (").replace("m)", "m))"),
    "row sums of wrapped rows":
        f"    v = {ROWS.format('(i % m)')}\n    v = v - tl.sum(v, 1)[:, None]\n" + STORE,
    "products of wrapped rows": f"    v = tl.dot({ROWS.format('(i % m)')}, {ROWS.format('j')})\n" + STORE,
    "sums over a loop":
        "    v = tl.zeros([32, 32], tl.float32)\n    for n in range(3):\n"
        f"        v += {ROWS.format('(i % m)')} * n\n" + STORE,
    "sums upwards along the axis": f"    v = tl.cumsum({ROWS.format('(i % m)')}, 0)\n" + STORE,
    "a sum of what a mask lets through":
        f"    v = {ROWS.format('(i % m)')}\n    v = tl.where(i[:, None] < m, v, 0.0)\n"
        "    tl.store(y + tl.program_id(0) * 32 + j, tl.sum(v, 0))\n",
}  # fmt: skip
NEEDED = {
    "an unmasked store": f"    v = {ROWS.format('(i % m)')}\n" + STORE.replace(", mask=i[:, None] < m", ""),
    "a mask that ends later":
        f"    v = {ROWS.format('(i % m)')}\n" + STORE.replace("< m)", "< m + 1)"),
    "a sum along the axis":
        f"    v = {ROWS.format('(i % m)')}\n    tl.store(y + tl.program_id(0) * 32 + j, tl.sum(v, 0))\n",
    "the rows of a right operand":
        f"    v = tl.dot({ROWS.format('j')}, {ROWS.format('(i % m)')})\n" + STORE,
    "sums downwards along the axis": f"    v = tl.cumsum({ROWS.format('(i % m)')}, 0, reverse=True)\n" + STORE,
    "a store to wrapped rows":
        f"    v = {ROWS.format('i')}\n    tl.store(y + (i % m)[:, None] * 32 + j[None, :], v)\n",
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_rows_that_no_store_takes_may_be_anything(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(HEAD + RIGHT[name])}::k", sig=SIG)
    for m in (1, 31, 32, 33, 64):
        for one in held(spec, Case({}, (2,), {"x": (2048,), "y": (2048,)}, {"m": m})):
            assert one.furthest <= 2, (m, one)


@pytest.mark.parametrize("name", NEEDED)
def test_what_an_index_wraps_around_to_is_loaded_where_a_result_needs_it(
    kernel_file: Callable[..., str], name: str
) -> None:
    spec = resolve(f"{kernel_file(HEAD + NEEDED[name])}::k", sig=SIG)
    assert any(op.index_operands for op in resolve_accesses(tile_program(spec)).ops())
    for m in (1, 32, 33):
        for one in held(spec, Case({}, (2,), {"x": (2048,), "y": (2048,)}, {"m": m})):
            assert one.furthest <= 2, (m, one)


@pytest.mark.parametrize("name", RIGHT)
def test_rows_that_no_store_takes_are_affine(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(HEAD + RIGHT[name])}::k", sig=SIG)
    assert not any(op.index_operands for op in resolve_accesses(tile_program(spec)).ops())


SCALED = "    s = tl.load(z + {0}, mask={1}, other=0.0)\n"
HALVES = SIG[:1] + ["z=*fp32:16", *SIG[1:]]
IDLE = {
    "one number for the rows of a tile": (SCALED.format("i // 32", "i < m"), True),
    "one for all rows from the third on": (SCALED.format("i // 32", "i >= m"), False),
    "a number for every row": (SCALED.format("i", "i < m"), False),
    "rows of two tiles": (SCALED.format("(i + 1) // 32", "i < m"), False),
    "a mask of fewer rows than are stored": (SCALED.format("i // 32", "i < m - 1"), False),
}


@pytest.mark.parametrize("name", IDLE)
def test_a_mask_that_only_leaves_out_what_no_store_takes_is_none_of_a_load_of_one_number(
    kernel_file: Callable[..., str], name: str
) -> None:
    """Elsewhere what the mask leaves out is a zero: the program computes as if it were there."""
    scaled, single = IDLE[name]
    text = HEAD.replace("(x, y, m)", "(x, z, y, m)") + scaled
    text += f"    v = {ROWS.format('(i % m)')} * s[:, None]\n" + STORE
    spec = resolve(f"{kernel_file(text)}::k", sig=HALVES)
    accesses = [op.access for op in resolve_accesses(tile_program(spec)).ops() if op.access is not None]
    assert [not access.axes for access in accesses if access.base == "z"] == [single]
    for m in (1, 31, 32, 33, 64):
        tensors = {"x": (2048,), "z": (64,), "y": (2048,)}
        for one in held(spec, Case({}, (3,), tensors, {"m": m})):
            assert one.furthest <= 2, (m, one)
