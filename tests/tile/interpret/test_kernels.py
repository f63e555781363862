"""Tile programs of the examples, and of kernels that once became wrong programs, compute what Triton does."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from triton.runtime.interpreter import InterpreterBuilder

from tests.conftest import ROOT
from tests.generated.kernels import held
from twill.kernel.problem import Case
from twill.kernel.specialization import list_specializations, problem_of, resolve
from twill.tile import odd_sizes

SCALED = ("gemm_mxfp8", "gemm_nvfp4")
OTHERWISE = ("nvfp4", "nvfp4-wide") if hasattr(InterpreterBuilder, "create_dot_scaled") else ("",)
"""Older interpreters of Triton have no products with scales, and that of 3.9 reads scales of type e4m3 as e8m0;
its compiled code does not (tests/codegen/verify/ptx/test_strangers_tile_programs.py)."""
EXAMPLES = [
    (path.stem, spec)
    for path in sorted((ROOT / "examples").glob("*.py"))
    for spec in sorted(list_specializations(str(path)))
    if path.stem not in SCALED or ("" not in OTHERWISE and spec not in OTHERWISE)
]
BF16 = 2.0**-7  # of what kernels round to within: sums in another order may go the other way


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(("stem", "name"), EXAMPLES)
def test_examples_compute_what_triton_does(stem: str, name: str) -> None:
    """At their smallest size. Tiles between powers of two, which Triton has not, become the next smaller power."""
    spec = resolve(f"examples/{stem}.py", spec=name)
    for odd in odd_sizes.odd_sizes(spec):
        spec = odd_sizes.at(spec, odd, 1 << (odd.bit_length() - 1))
    problem = problem_of(spec)
    assert problem is not None
    problem = problem.with_constants(dict(spec.constexprs))
    case = problem.case(min(problem.run, key=lambda sizes: math.prod(sizes.values())))
    for one in held(spec, case):
        epsilon = 2.0**-23 if one.dtype == "fp32" else BF16
        assert one.furthest * epsilon <= 2 * BF16 * (1 if epsilon == BF16 else 0.1), one


MATRIX = "    i = tl.arange(0, 32)\n    ij = i[:, None] * 32 + i[None, :]\n"
KERNELS = {
    # A product of int8, whose sums are int32.
    "int8": (
        {"a": "*i8", "b": "*i8", "y": "*i32"}, {},
        "def k(a, b, y):\n" + MATRIX + "    tl.store(y + ij, tl.dot(tl.load(a + ij), tl.load(b + ij)))\n",
    ),
    # tf32 with a right operand in row-major order.
    "tf32": (
        {"a": "*fp32", "b": "*fp32", "y": "*fp32"}, {},
        "def k(a, b, y):\n" + MATRIX + '    s = tl.dot(tl.load(a + ij), tl.load(b + ij), input_precision="ieee")\n'
        "    tl.store(y + ij, s)\n",
    ),
    # Upper halves of unsigned products, alone and in random numbers.
    "upper halves": (
        {"x": "*i32", "y": "*i32", "z": "*fp32"}, {},
        "def k(x, y, z):\n    i = tl.arange(0, 1024)\n    u = tl.load(x + i) * 715827883\n"
        "    tl.store(y + i, tl.umulhi(u, u * 77 + 1))\n    tl.store(z + i, tl.rand(7, i))\n",
    ),
    # A scalar that a loop carries.
    "scalar sum": (
        {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"n": 100},
        "def k(x, y, n):\n    s = 0.0\n    for start in range(0, n, 32):\n        at = start + tl.arange(0, 32)\n"
        "        s += tl.sum(tl.load(x + at, mask=at < n, other=0.0))\n    tl.store(y, s)\n",
    ),
    # A scalar maximum that a loop carries.
    "scalar max": (
        {"x": "*fp32", "y": "*fp32", "n": "i32"}, {"n": 100},
        'def k(x, y, n):\n    m = -float("inf")\n    for start in range(0, n, 32):\n'
        "        at = start + tl.arange(0, 32)\n"
        '        m = tl.maximum(m, tl.max(tl.load(x + at, mask=at < n, other=-float("inf")), 0))\n    tl.store(y, m)\n',
    ),
    # A scale for each block, loaded in the loop.
    "scale in loop": (
        {"x": "*fp32", "s": "*fp32", "y": "*fp32", "n": "i32"}, {"n": 4},
        "def k(x, s, y, n):\n    i = tl.arange(0, 32)\n    acc = tl.zeros([32], tl.float32)\n    for j in range(n):\n"
        "        acc += tl.load(x + j * 32 + i) * tl.load(s + j)\n    tl.store(y + i, acc)\n",
    ),
    # A stride that is known when the kernel runs.
    "runtime stride": (
        {"x": "*fp32", "y": "*fp32", "m": "i32", "n": "i32"}, {"m": 7, "n": 5},
        "def k(x, y, m, n):\n    i = tl.arange(0, 32)\n    acc = tl.zeros([32], tl.float32)\n    for j in range(n):\n"
        "        acc += tl.load(x + j * m + i)\n    tl.store(y + i, acc)\n",
    ),
    # Grid indices, with a mask of truth values from memory.
    "truth values": (
        {"x": "*fp32", "c": "*i1", "y": "*fp32"}, {},
        "def k(x, c, y):\n    at = tl.program_id(0) * 64 + tl.program_id(1) * 32 + tl.arange(0, 32)\n"
        "    tl.store(y + at, tl.where(tl.load(c + at), tl.load(x + at), tl.num_programs(0)))\n",
    ),
    # Sums of several program instances.
    "atomic": (
        {"x": "*fp32", "y": "*fp32"}, {},
        "def k(x, y):\n    at = tl.program_id(0) * 64 + tl.program_id(1) * 32 + tl.arange(0, 32)\n"
        "    tl.atomic_add(y + tl.arange(0, 32), tl.load(x + at))\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("raw", [False, True])
def test_kernels_that_were_wrong_programs_compute_what_triton_does(
    kernel_file: Callable[..., str], name: str, raw: bool
) -> None:
    signature, scalars, text = KERNELS[name]
    sig = [f"{argument}={kind}" for argument, kind in signature.items()]
    spec = resolve(f"{kernel_file('@triton.jit' + chr(10) + text)}::k", sig=sig)
    shapes = {argument: (1024,) for argument, kind in signature.items() if kind.startswith("*")}
    for one in held(spec, Case({}, (2, 2), shapes, scalars), raw=raw):
        assert one.furthest <= 2, one


def test_a_table_of_experts_is_followed(kernel_file: Callable[..., str]) -> None:
    """A scalar from memory in an address: no affine access, but the program as Triton spells it is right."""
    text = (
        "@triton.jit\ndef k(x, t, y):\n    i = tl.arange(0, 32)\n    e = tl.load(t + tl.program_id(0))\n"
        "    tl.store(y + tl.program_id(0) * 32 + i, tl.load(x + (e + 4) * 32 + i))\n"
    )
    spec = resolve(f"{kernel_file(text)}::k", sig=["x=*fp32", "t=*i32", "y=*fp32"])
    for one in held(spec, Case({}, (8,), {"x": (1024,), "t": (8,), "y": (1024,)}, {}), raw=True):
        assert one.furthest == 0, one
