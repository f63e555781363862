"""A product whose B lies along K, of rows by one axis of the launch grid and columns by another one."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def along_k(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def held(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """B is loaded in front of the loop and read by all of it."""
    row = tl.program_id(0) * BM
    w = b.load([0, 0])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([row, k]), w, acc)
    c.store([row, 0], acc.to(c.dtype))
