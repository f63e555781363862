"""Numbers that addresses are made of, summed from memory: what becomes of them, and that they are what Triton's
interpreter says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.generated.kernels import held
from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.exc import TwillError
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.translate.translate import tile_program

SIG = ["x=*fp32:16", "y=*fp32:16", "lens=*i32:16", "n=i32"]
HEAD = "@triton.jit\ndef k(x, y, lens, n):\n    p, i, at = tl.program_id(0), tl.arange(0, 16), tl.arange(0, 32)\n"
TAIL = "    tl.store(y + s * 32 + at, tl.load(x + p * 32 + at))\n"
SUMS = {
    "a sum": "    s = tl.sum(tl.load(lens + i, mask=i < p, other=0))\n",
    "a sum of what is computed": "    v = tl.load(lens + i * 2)\n"
                                 "    s = tl.sum(tl.where((i < p) & (v > 0), v + 1, 0))\n",
    "the largest": "    s = p + 8 * tl.max(tl.load(lens + i, mask=i < n, other=-3)) + 24\n",
    "the least, of long numbers": "    s = p - 8 * tl.min(tl.load(lens + i).to(tl.int64)) + 8\n",
    "two rows": "    s = tl.sum(tl.load(lens + i, mask=i < p, other=0)) + tl.sum(tl.load(lens + 16 + i)) * 0\n",
    "a loop": "    s = 0\n    for j in range(n):\n        s += tl.load(lens + j, mask=j < p, other=0)\n",
    "a loop with a condition": "    s = 0\n    for j in range(n):\n        v = tl.load(lens + j)\n"
                               "        if j < p:\n            s += v + 1\n",
    "a loop of two numbers": "    s, t = 0, 1\n    for j in range(1, n + 1, 2):\n        t = tl.load(lens + j)\n"
                             "        s = s + t\n    s = s + p + t * 0\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_what_an_address_is_made_of_is_looked_up_by_all(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(HEAD + SUMS[name] + TAIL)}::k", sig=SIG)
    assert {"scalar_loop"} == {op.kind for op in tile_program(spec).ops() if op.kind in ("scalar_loop", "reduce")}
    case = Case({}, (6,), {"x": (192,), "y": (4096,), "lens": (40,)}, {"n": 9})
    for one in held(spec, case, given={"lens": np.arange(40, dtype=np.int32)}):
        assert one.furthest == 0, one


CHECKED = {
    "a sum": SUMS["a sum"],
    "a loop": "    s = 0\n    for j in range(p):\n        s += tl.load(lens + j)\n",
    "a loop with a condition": SUMS["a loop with a condition"],
}


@pytest.mark.parametrize("name", CHECKED)
def test_such_kernels_are_checked_at_numbers_that_are_made_up(kernel_file: Callable[..., str], name: str) -> None:
    tile = extract(f"{kernel_file(HEAD + CHECKED[name] + TAIL)}::k", sig=SIG).program
    assert not verify(lower(tile, scheduled(tile), H100))


LONG = "    v = tl.load(lens + i)\n" + "    v = v * 3 + tl.load(lens + (v & 15))\n" * 30

OTHERS = {
    "a sum of what takes long to say": LONG + "    s = tl.sum(v)\n    tl.store(y + (s & 15) + at, 1.0)\n",
    "a sum that is stored": "    s = tl.sum(tl.load(lens + i))\n    tl.store(y + p, s.to(tl.float32))\n",
    "numbers that the kernel writes":
        "    s = tl.sum(tl.load(lens + i, mask=i < p, other=0))\n    tl.store(lens + p, 0)\n" + TAIL,
    "a sum of tiles that are multiplied": "    s = tl.sum((tl.load(x + i) > 0).to(tl.int32) * tl.load(lens + i))\n"
                                          "    tl.store(y + p, s.to(tl.float32))\n",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_are_those_of_tiles(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(HEAD + OTHERS[name])}::k", sig=SIG)
    assert "scalar_loop" not in {op.kind for op in tile_program(spec).ops()}


def test_an_address_made_of_what_the_kernel_writes_has_it_as_an_index(kernel_file: Callable[..., str]) -> None:
    program = extract(f"{kernel_file(HEAD + OTHERS['numbers that the kernel writes'])}::k", sig=SIG).program
    assert [op.kind for op in program.ops() if op.index_operands] == ["tile_store"]


def test_fail_a_trip_count_made_of_what_the_kernel_writes(kernel_file: Callable[..., str]) -> None:
    loop = "    t = 0.0\n    for j in range(s):\n        t += tl.load(x + j)\n    tl.store(y + p, t)\n"
    with pytest.raises(TwillError, match="the trip count of a loop depends on what is computed from data"):
        extract(f"{kernel_file(HEAD + OTHERS['numbers that the kernel writes'].removesuffix(TAIL) + loop)}::k", sig=SIG)
