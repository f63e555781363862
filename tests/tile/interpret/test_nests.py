"""Loops in loops become one loop; carried values that never change are no carried values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generated.kernels import held
from twill.exc import NestedLoop
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.program import Loop, loops_of
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


LONG = {
    "sums of sums": """
    for i in range(n):
        t = s * 0
        for j in range(m):
            t = t * 0.5 + tl.load(x + (i + j) * 32 + at)
        s += t
""",
    "a sum that goes on": """
    for i in range(n):
        for j in range(m):
            s += tl.load(x + (i + j) * 32 + at)
""",
    "pointers that advance in both loops": """
    p = x + at
    for i in range(n):
        q = p
        for j in range(m):
            s = s * 0.5 + tl.load(q)
            q += 32
        p += 64
""",
    "stores before, in and behind the inner loop": """
    for i in range(0, n, 2):
        t = tl.load(x + i * 32 + at)
        tl.store(y + 1024 + i * 32 + at, t)
        for j in range(1, m):
            t += j
            tl.store(y + 2048 + (i * 16 + j) * 32 + at, t)
        tl.store(y + 32 + i * 32 + at, t)
        s += t
""",
    "an atomic addition in each row": """
    for i in range(n):
        t = s * 0
        for j in range(m):
            t += tl.load(x + (i + j) * 32 + at)
        tl.atomic_add(y + 32 + at, t)
""",
    "steps that do not divide": """
    for i in range(1, 20, 3):
        for j in range(-2, m, 3):
            s = s * 0.5 + tl.load(x + (i + j + 2) * 32 + at) * j
""",
    "a condition on both": """
    for i in range(n):
        for j in range(m):
            if i > j:
                s += tl.load(x + (i + j) * 32 + at)
""",
    "a scalar that both carry": """
    c = 0
    for i in range(n):
        for j in range(m):
            c = c * 3 + j + i
        c += 1
    s += c
""",
    "an inner loop that counts in 64 bits": """
    for i in range(1, n):
        for j in range(tl.program_id(0).to(tl.int64) - 2, m, 3):
            s = s * 0.5 + tl.load(x + (i + j + 2) * 32 + at) * j
""",
    "an outer loop that counts in 64 bits": """
    for i in range(tl.program_id(0).to(tl.int64) + 1, n, 2):
        t = s * 0
        for j in range(m):
            t = t * 0.5 + tl.load(x + (i + j) * 32 + at) * i
        tl.store(y + 32 + i * 32 + at, t)
        s += t
""",
    "loads behind a condition where the inner loop never runs": """
    for i in range(n):
        t = s
        for j in range(m):
            t += tl.load(x + j * 32 + at)
            s = t
        s = s * 0.5 + 1
""",
}
VARYING = {
    "a triangle": """
    for i in range(n):
        for j in range(i):
            s = s * 0.5 + tl.load(x + (i + j) * 32 + at)
""",
    "rows of what is left": """
    for i in range(0, n, 2):
        t = s * 0
        for j in range(0, tl.cdiv(min(m, n - i) * 4, 3)):
            t = t * 0.5 + tl.load(x + (i + j) * 32 + at) + 1
        tl.store(y + 32 + i * 32 + at, t)
        s += t
""",
    "a scalar that only iterations that run change": """
    c = 1
    for i in range(n):
        for j in range(1, min(i + 1, m)):
            c = c * 3 + j
            tl.store(y + 32 + (i * 8 + j) * 32 + at, s + c)
        s += c
""",
    "as many as a table says, and no more than three": """
    for i in range(n):
        for j in range(min(tl.load(x + i).to(tl.int32), 3)):
            s = s * 0.5 + tl.load(x + (i + j) * 32 + at)
""",
}
LONG |= VARYING


@pytest.mark.parametrize("name", LONG)
def test_nests_of_any_length_are_one_loop_that_computes_what_triton_does(
    kernel_file: Callable[..., str], name: str
) -> None:
    text = HEAD.replace("n):", "n, m):") + LONG[name] + TAIL
    spec = resolve(f"{kernel_file(text)}::k", sig=[*SIG, "m=i32"])
    flat = resolve_accesses(tile_program(spec))
    assert not any(list(loops_of(item.body)) for item in flat.body if isinstance(item, Loop))
    for raw in (True, False):
        for n, m in ((0, 2), (4, 0), (1, 1), (5, 3)):
            for one in held(spec, Case({}, (1,), {"x": (2048,), "y": (8192,)}, {"n": n, "m": m}), raw=raw):
                assert one.furthest == 0, (n, m, raw, one)


REFUSED = {
    "a loop inside a loop whose bounds change": """
    for i in range(n):
        for j in range(tl.load(x + i).to(tl.int32)):
            s += tl.load(x + (i + j) * 32 + at)
""",
    "a second loop inside a loop": """
    for i in range(n):
        for j in range(n):
            s += j
        for j in range(n):
            s *= tl.load(x + (i + j) * 32 + at)
""",
    "a loop inside a loop behind a load from `x`, which is stored": """
    for i in range(n):
        t = tl.load(x + at)
        for j in range(n):
            t += j
            tl.store(x + at, t)
        s += t
""",
}


@pytest.mark.parametrize("what", REFUSED)
def test_fail_other_nests_name_the_inner_loop(kernel_file: Callable[..., str], what: str) -> None:
    with pytest.raises(NestedLoop, match=what) as raised:
        resolve_accesses(tile_program(resolve(f"{kernel_file(HEAD + REFUSED[what] + TAIL)}::k", sig=SIG)))
    assert raised.value.line >= 8
