"""A `while` that counts is a `for`, and computes what Triton's interpreter says it does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generated.kernels import held
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.program import loops_of
from twill.tile.translate.translate import tile_program

HEAD = "@triton.jit\ndef k(x, y, n):\n"
BEGIN = "    p = tl.program_id(0)\n    r = tl.arange(0, 32)\n    s = tl.zeros([32], tl.float32)\n"
END = "    tl.store(y + p * 32 + r, s)\n"
ADD = "        s = s * 0.5 + tl.load(x + i * 32 + r)\n"
WHILES = {
    "up to a bound": "    i = 0\n    while i < n:\n" + ADD + "        i += 1\n",
    "up to a bound and it, in steps of three": "    i = p\n    while i <= n:\n" + ADD + "        i += 3\n",
    "the bound first": "    i = p\n    while n > i:\n" + ADD + "        i += 2\n",
    "unequal": "    i = 0\n    while i != n + 5:\n" + ADD + "        i += 1\n",
    "down to zero": "    i = n + p\n    while i > 0:\n        i -= 1\n" + ADD,
    "down to zero and it": "    i = n + p\n    while i >= 0:\n" + ADD + "        i += -2\n",
    "the counter read behind it": "    i = p\n    while i < n:\n" + ADD + "        i += 2\n    s += i\n",
    "the counter read behind one down": "    i = 7 - p\n    while i > n + 4:\n" + ADD + "        i -= 2\n    s += i\n",
    "the counter raised first": "    i = p\n    while i < n:\n        i += 2\n" + ADD,
    "between two bounds": "    i = p\n    while i >= 1 and i < n:\n" + ADD + "        i += 1\n",
    "below two bounds": "    i = 0\n    while (i < n) & (i < p + 2):\n" + ADD + "        i += 1\n",
    "a step of the launch": "    i = p\n    while i < n:\n" + ADD + "        i += tl.num_programs(0)\n",
    "a step of an argument": "    i = p\n    while i < n:\n" + ADD + "        i += n\n",
    "another number carried":
        "    i = 0\n    j = p\n    while i < n:\n        s += tl.load(x + j * 32 + r)\n        j += 2\n"
        "        i += 1\n",
    "one in an if": "    if p % 2 == 0:\n        i = 0\n        while i < n:\n    " + ADD.replace("\n", "\n    ", 0)
        + "            i += 1\n",
    "a store in it":
        "    i = 0\n    while i < n:\n        tl.store(y + 256 + (p * 8 + i) * 32 + r, s + i)\n"
        "        i += 1\n",
    "one in another":
        "    i = 0\n    while i < n:\n        j = 0\n        while j < p:\n"
        "            s += tl.load(x + (i + j) * 32 + r)\n            j += 1\n        i += 1\n",
    "a counter that doubles": "    i = 1\n    while i < n:\n" + ADD + "        i *= 2\n",
    "a condition that the loop changes":
        "    i = 0\n    on = p > 1\n    while on & (i < n):\n" + ADD + "        i += 1\n        on = i % 3 != 2\n",
    "a condition from memory": "    i = p\n    while tl.load(x + i) > 0.0:\n" + ADD + "        i += 1\n    s += i\n",
    "scalars alone":
        "    i = n + p\n    j = 0\n    while i > 1:\n        i = tl.where(i % 2 == 0, i // 2, 3 * i + 1)\n"
        "        j += 1\n    s += j * 8 + i\n",
    "scalars in an if, and scalars in them":
        "    i = 3 * n\n    j = 0\n    if p > 1:\n        while i > p:\n            i = i // 2 - 1\n            k = i\n"
        "            while k > 0:\n                k -= 1 + k // 3\n                j += 1\n    s += j * 16 + i\n",
}  # fmt: skip
LOOPS = {"one in another": 2, "scalars alone": 0, "scalars in an if, and scalars in them": 0}
SIG = ["x=*fp32:16", "y=*fp32:16", "n=i32"]


@pytest.mark.parametrize("name", WHILES)
def test_a_while_computes_what_triton_does(kernel_file: Callable[..., str], name: str) -> None:
    spec = resolve(f"{kernel_file(HEAD + BEGIN + WHILES[name] + END)}::k", sig=SIG)
    assert len(list(loops_of(tile_program(spec).body))) == LOOPS.get(name, 1)
    for n in (-3, 0, 1, 4):
        for one in held(spec, Case({}, (4,), {"x": (1024,), "y": (2048,)}, {"n": n}), raw=True):
            assert one.furthest == 0, (n, one)


def test_what_a_condition_does_is_done_once_more_than_there_are_iterations(kernel_file: Callable[..., str]) -> None:
    noting = "@triton.jit\ndef noting(y, n):\n    tl.atomic_add(y, 1.0)\n    return n\n\n\n"
    body = "    i = 0\n    while i < noting(y + 2000 + p, n):\n" + ADD + "        i += 1\n"
    spec = resolve(f"{kernel_file(noting + HEAD + BEGIN + body + END)}::k", sig=SIG)
    for n in (-3, 0, 1, 4):
        for one in held(spec, Case({}, (4,), {"x": (1024,), "y": (2048,)}, {"n": n}), raw=True):
            assert one.furthest == 0, (n, one)
