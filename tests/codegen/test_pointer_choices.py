"""Kernels in which a condition chooses a tensor, as warp programs and on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify

VECTOR = """
@triton.jit
def k(a, b, y, n, m):
    pid, i = tl.program_id(0), tl.arange(0, 256)
    if pid < m:
        p = a + pid * 256
    else:
        p = b + (pid - m) * 256
    q = y
    if n > 300:
        q = y + 256
    tl.store(q + pid * 256 + i, tl.load(p + i) * 2)
"""
PRODUCT = """
@triton.jit
def k(a, b, y, n, m):
    pid = tl.program_id(0)
    i, j = tl.arange(0, 64), tl.arange(0, 64)
    if pid < m:
        x = a
    else:
        x = b
    p = x + (pid * 64 + i)[:, None] * n + j[None, :]
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, n, 64):
        w = tl.load(a + (k + i)[:, None] * 64 + j[None, :])
        acc = tl.dot(tl.load(p), w, acc)
        p += 64
    tl.store(y + (pid * 64 + i)[:, None] * 64 + j[None, :], acc)
"""


@pytest.mark.parametrize(("text", "element"), [(VECTOR, "fp32"), (PRODUCT, "bf16")], ids=["vector", "product"])
def test_each_tensor_is_accessed_where_it_is_chosen(kernel_file: Callable[..., str], text: str, element: str) -> None:
    sig = (f"a=*{element}:16", f"b=*{element}:16", "y=*fp32:16", "n=i32:16", "m=i32")
    tile = extract(f"{kernel_file(text)}::k", sig=sig).program
    assert {access.base for _, access in tile.accesses} == {"a", "b", "y"}
    assert not verify(lower(tile, scheduled(tile), H100))
