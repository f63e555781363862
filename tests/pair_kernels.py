"""Products of rows by one axis of the launch grid and columns by another one; some are refused."""

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


@triton.jit
def three(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Three accumulators."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    x = tl.zeros((BM, BN), dtype=tl.float32)
    y = tl.zeros((BM, BN), dtype=tl.float32)
    z = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        w = a.load([row, k])
        x = tl.dot(w, b.load([k, column]), x)
        y = tl.dot(w, b.load([k, column + 8]), y)
        z = tl.dot(w, b.load([k, column + 16]), z)
    c.store([row, column], (x * y * z).to(c.dtype))


@triton.jit
def scaled(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Scales of blocks of 32."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left, right = a.load([row, k]), b.load([column, k]).T
        of_left, of_right = sa.load([row, k // 32]), sb.load([column, k // 32])
        acc = tl.dot_scaled(left, of_left, "e4m3", right, of_right, "e4m3", acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def diagonal(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Every instance has columns of its own."""
    row, column = tl.program_id(0) * BM, tl.program_id(0) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def unmasked(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Of whole tiles, through pointers: nothing says where the tensors end."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        along = k + tl.arange(0, BK)
        x = tl.load(a + row[:, None] * K + along[None, :])
        y = tl.load(b + column[:, None] * K + along[None, :])
        acc = tl.dot(x, y.T, acc)
    tl.store(c + row[:, None] * N + column[None, :], acc.to(c.dtype.element_ty))
