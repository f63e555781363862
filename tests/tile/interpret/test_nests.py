"""Loops in loops that are short and known become one loop; carried values that never change are no carried values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generated.kernels import held
from twill.exc import NestedLoop
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.program import Loop
from twill.tile.translate.translate import tile_program

HEAD = "@triton.jit\ndef k(x, y, n):\n    at = tl.arange(0, 32)\n    s = tl.zeros([32], tl.float32)\n"
TAIL = "    tl.store(y + at, s)\n"
NESTS = {
    "a short loop in a loop":
        "    for i in range(n):\n        for j in range(3):\n            s += tl.load(x + (i + j) * 32 + at) * j\n",
    "a loop in a short loop":
        "    for i in range(3):\n        for j in range(n):\n            s += tl.load(x + (i + j) * 32 + at) * i\n",
    "an inner loop with carried values of its own":
        "    for i in range(n):\n        t = s * 0\n        for j in range(0, 8, 3):\n"
        "            t = t * 0.5 + tl.load(x + (i + j) * 32 + at)\n        s += t\n",
    "an inner loop without iterations":
        "    for i in range(n):\n        s += 1\n        for j in range(4, 4):\n"
        "            s += tl.load(x + j * 32 + at)\n",
    "an if in the inner loop":
        "    for i in range(n):\n        for j in range(2):\n            if i > j:\n"
        "                s += tl.load(x + (i + j) * 32 + at)\n",
}  # fmt: skip
SIG = ["x=*fp32:16", "y=*fp32:16", "n=i32"]


@pytest.mark.parametrize("name", NESTS)
def test_nests_with_short_loops_compute_what_triton_does(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(HEAD + NESTS[name] + TAIL)}::k", sig=SIG)
    for raw in (True, False):
        for n in (0, 1, 4):
            for one in held(spec, Case({}, (1,), {"x": (1024,), "y": (32,)}, {"n": n}), raw=raw):
                assert one.furthest == 0, (n, one)


def test_an_index_that_every_iteration_makes_again_is_not_carried(kernel_file: Callable[..., str]) -> None:
    text = "    for i in range(n):\n        s += tl.load(x + i * 32 + at)\n        at = tl.arange(0, 32)\n"
    spec = resolve(f"{kernel_file(HEAD + text + TAIL)}::k", sig=SIG)
    (loop,) = (item for item in tile_program(spec).body if isinstance(item, Loop))
    assert [carry.name for carry in loop.carried] == ["s"]
    for one in held(spec, Case({}, (1,), {"x": (1024,), "y": (32,)}, {"n": 4})):
        assert one.furthest == 0, one


def test_fail_a_nest_whose_loops_are_long_names_the_inner_one(kernel_file: Callable[..., str]) -> None:
    text = "    for i in range(17):\n        for j in range(n):\n            s += tl.load(x + (i + j) * 32 + at)\n"
    with pytest.raises(NestedLoop, match="a loop inside a loop") as raised:
        tile_program(resolve(f"{kernel_file(HEAD + text + TAIL)}::k", sig=SIG))
    assert raised.value.line == 8
