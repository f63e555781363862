"""Kernels with branches are straight programs that compute what Triton's interpreter says they do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generated.kernels import held
from twill.exc import DataDependentControlFlow
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.program import Loop
from twill.tile.translate.translate import tile_program

AT = "    p = tl.program_id(0)\n    at = p * 32 + tl.arange(0, 32)\n"
KERNELS = {
    "an early return": AT + "    if p >= n:\n        return\n    tl.store(y + at, tl.load(x + at) * 2)\n",
    "two early returns, the first of them after a store":
        AT + "    if p == n:\n        tl.store(y + at, 1.0)\n        return\n    if p > n + 1:\n        return\n"
        "    tl.store(y + at, tl.load(x + at))\n",
    "an if without an else":
        AT + "    v = tl.load(x + at)\n    if p < n:\n        v = v * 3\n    tl.store(y + at, v)\n",
    "both sides of an if":
        AT + "    v = tl.load(x + at)\n    s = 1\n    if p % 2 == 0:\n        v = v * 3\n        s = 4\n    else:\n"
        "        v -= 1\n    tl.store(y + at, v + s)\n",
    "an if in an if":
        AT + "    v = tl.load(x + at)\n    if p < n:\n        if p % 2 == 1:\n            v = v * 3\n"
        "            tl.atomic_add(y + at, v)\n        else:\n            tl.store(y + at, v)\n",
    "a chain of conditions":
        AT + "    v = tl.load(x + at)\n    if p == 0:\n        v += 1\n    elif p == 1:\n        v += 2\n"
        "    elif p < n:\n        v += 3\n    tl.store(y + at, v)\n",
    "a condition over the loop variable":
        AT + "    s = tl.zeros([32], tl.float32)\n    for i in range(n + 3):\n        if i % 2 == p % 2:\n"
        "            s += tl.load(x + i * 32 + tl.arange(0, 32))\n    tl.store(y + at, s)\n",
    "a store in one iteration":
        AT + "    for i in range(n + 3):\n        if i == p:\n            tl.store(y + at, tl.load(x + i + at))\n",
    "a loop under a condition":
        AT + "    s = tl.zeros([32], tl.float32)\n    if p < n:\n        for i in range(1, n + 3, 2):\n"
        "            s += tl.load(x + i * 32 + tl.arange(0, 32))\n    tl.store(y + at, s)\n",
    "a loop behind an early return":
        AT + "    if p > n:\n        return\n    s = tl.zeros([32], tl.float32)\n    for i in range(n):\n"
        "        s += tl.load(x + i * 32 + tl.arange(0, 32))\n    tl.store(y + at, s)\n",
    "a mask besides":
        AT + "    if p < n:\n        tl.store(y + at, tl.load(x + at, mask=at < 37, other=5), mask=at > 3)\n",
    "a mask of data besides":
        AT + "    v = tl.load(x + at)\n    if p < n:\n        tl.store(y + at, v, mask=v > 0)\n",
    "a condition from memory":
        AT + "    if tl.load(x + p) > 0:\n        tl.store(y + at, tl.load(x + at))\n    else:\n"
        "        tl.store(y + at, 7.0)\n",
    "a choice of an offset":
        AT + "    if p < n:\n        q = x + 32\n        q += tl.load(x).to(tl.int32) * 0\n    else:\n        q = x\n"
        "    tl.store(y + at, tl.load(q + at))\n",
    "a choice of an offset without a branch":
        AT + "    q = x\n    if p < n:\n        q = x + 32\n    tl.store(y + at, tl.load(q + at))\n",
    "a helper with a return in it": AT + "    tl.store(y + at, helper(tl.load(x + at), p, n))\n",
}  # fmt: skip
HELPER = (
    "@triton.jit\ndef helper(v, p, n):\n    if p < n:\n        w = v * 2\n    else:\n        w = v + 1\n"
    "    return w\n\n\n"
)
SIG = ["x=*fp32:16", "y=*fp32:16", "n=i32"]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("raw", [True, False], ids=["as written", "accesses"])
def test_branches_compute_what_triton_does(kernel_file: Callable[..., str], name: str, raw: bool) -> None:
    file = kernel_file(HELPER + "@triton.jit\ndef k(x, y, n):\n" + KERNELS[name])
    spec = resolve(f"{file}::k", sig=SIG)
    for n in (0, 2, 5):
        for one in held(spec, Case({}, (4,), {"x": (1024,), "y": (1024,)}, {"n": n}), raw=raw):
            assert one.furthest == 0, (n, one)


def test_what_a_branch_that_is_not_taken_would_load_is_not_touched(kernel_file: Callable[..., str]) -> None:
    """The instances behind the end of the tensors, at which the others end, too."""
    source = "@triton.jit\ndef k(x, y, n):\n" + KERNELS["an early return"]
    spec = resolve(f"{kernel_file(source)}::k", sig=SIG)
    for raw in (True, False):
        (x, y) = held(spec, Case({}, (9,), {"x": (64,), "y": (64,)}, {"n": 2}), raw=raw)
        assert x.furthest == y.furthest == 0


def test_a_loop_that_is_not_reached_has_no_iteration(kernel_file: Callable[..., str]) -> None:
    source = "@triton.jit\ndef k(x, y, n):\n" + KERNELS["a loop behind an early return"]
    program = tile_program(resolve(f"{kernel_file(source)}::k", sig=SIG))
    (loop,) = (item for item in program.body if isinstance(item, Loop))
    (upper,) = (op for op in program.ops() if loop.upper in op.results)
    assert upper.kind == "select" and upper.operands[2] == loop.lower


def test_a_tensor_that_is_only_there_under_a_condition_is_not_touched_without_it(
    kernel_file: Callable[..., str],
) -> None:
    """Programs pass anything in its place then. The tile lies behind the end that the mask gives the tensor."""
    source = (
        "@triton.jit\ndef k(x, y, z, m, n):\n    at = tl.program_id(0) * 32 + tl.arange(0, 32)\n"
        "    v = tl.load(x + at, mask=at < m)\n    if n > 0:\n        v += tl.load(z + at, mask=at < m)\n"
        "    tl.store(y + at, v, mask=at < m)\n"
    )
    spec = resolve(f"{kernel_file(source)}::k", sig=[*SIG[:2], "z=*fp32:16", "m=i32", "n=i32"])
    bias = next(op for op in resolve_accesses(tile_program(spec)).ops() if op.access and op.access.base == "z")
    assert bias.access is not None and (bias.access.transport, bias.operands) == ("tma", ())
    for n, there in ((0, 1), (1, 96)):
        case = Case({}, (3,), {"x": (96,), "y": (96,), "z": (there,)}, {"m": 96, "n": n})
        for raw in (True, False):
            for one in held(spec, case, raw=raw):
                assert one.furthest == 0, (n, one)


def test_a_host_descriptor_is_loaded_whatever_the_condition_says(kernel_file: Callable[..., str]) -> None:
    """Its tensor is there, or the host could not have made it. A store under a condition is one under a condition."""
    source = (
        "@triton.jit\ndef k(x, y, n):\n    p = tl.program_id(0)\n    if p < n:\n"
        "        y.store([p * 16, 0], x.load([p * 16, 0]))\n"
    )
    sig = ["x=tensordesc<fp32[16, 32]>", "y=tensordesc<fp32[16, 32]>", "n=i32"]
    spec = resolve(f"{kernel_file(source)}::k", sig=sig)
    load, store = (op for op in resolve_accesses(tile_program(spec)).ops() if op.access is not None)
    assert load.operands == () and len(store.operands) == 2
    for raw in (True, False):
        for one in held(spec, Case({}, (3,), {"x": (48, 32), "y": (48, 32)}, {"n": 2}), raw=raw):
            assert one.furthest == 0, one


CHOSEN = {
    "loads": "    v = tl.load(q + at)\n",
    "an offset more": "    q += 32\n    two = tl.arange(0, 32)[:, None] + at[None, :] * 0\n"
                      "    v = tl.sum(tl.load(q + two, mask=p > 0, other=2.0), axis=1)\n",
    "a loop that moves it": "    v = tl.zeros([32], tl.float32)\n    for i in range(n):\n        v += tl.load(q + at)\n"
                            "        q += 32\n",
    "a pointer of each element": "    a = q + at\n    if p == 1:\n        a = z + at\n    v = tl.load(a)\n",
    "stores": "    tl.store(q + 320 + at, 3.0)\n    v = at.to(tl.float32)\n",
}  # fmt: skip


@pytest.mark.parametrize("use", CHOSEN)
@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_a_pointer_that_is_chosen_is_each_of_them_where_it_is(
    kernel_file: Callable[..., str], use: str, n: int
) -> None:
    source = (
        f"@triton.jit\ndef k(x, y, z, n):\n{AT}    if p < n:\n        q = x\n    elif p == 3:\n        q = x + 5\n"
        f"    else:\n        q = z\n{CHOSEN[use]}    tl.store(y + at, v)\n"
    )
    spec = resolve(f"{kernel_file(source)}::k", sig=["x=*fp32:16", "y=*fp32:16", "z=*fp32:16", "n=i32"])
    case = Case({}, (5,), {"x": (640,), "y": (160,), "z": (640,)}, {"n": n})
    for raw in (True, False):
        for one in held(spec, case, raw=raw):
            assert one.furthest == 0, one


def test_fail_a_chosen_pointer_that_is_used_otherwise_names_its_line(kernel_file: Callable[..., str]) -> None:
    source = (
        "@triton.jit\ndef k(x, y, n):\n    at = tl.arange(0, 32)\n    if n > 3:\n        src = x\n    else:\n"
        "        src = y\n    d = tl.make_tensor_descriptor(src, [32, 32], [32, 1], [8, 32])\n"
        "    d.store([0, 0], d.load([8, 0]))\n"
    )
    with pytest.raises(DataDependentControlFlow, match="an `if` chooses a pointer, and it is used for more") as raised:
        tile_program(resolve(f"{kernel_file(source)}::k", sig=SIG))
    assert raised.value.line == 10
