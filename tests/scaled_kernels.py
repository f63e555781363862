"""Kernels with scales of blocks, written to be emitted or refused for the B200."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def in_rows(scales, ROWS: tl.constexpr, BLOCKS: tl.constexpr):
    return scales.reshape(ROWS // 128, BLOCKS // 4, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(ROWS, BLOCKS)


@triton.jit
def twice(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two products with one A, whose scales both read."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    x = tl.zeros((BM, BN), dtype=tl.float32)
    y = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left, of_left = a.load([row, k]), in_rows(sa.load([0, row // 128, k // 128, 0, 0]), BM, BK // 32)
        one, of_one = b.load([column, k]), in_rows(sb.load([0, column // 128, k // 128, 0, 0]), BN, BK // 32)
        two = b.load([column + BN, k])
        of_two = in_rows(sb.load([0, column // 128 + 1, k // 128, 0, 0]), BN, BK // 32)
        x = tl.dot_scaled(left, of_left, "e4m3", one.T, of_one, "e4m3", x)
        y = tl.dot_scaled(left, of_left, "e4m3", two.T, of_two, "e4m3", y)
    c.store([row, column], (x * y).to(c.dtype))


@triton.jit
def mixed(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A of e4m3, B of e5m2."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left, of_left = a.load([row, k]), in_rows(sa.load([0, row // 128, k // 128, 0, 0]), BM, BK // 32)
        right, of_right = b.load([column, k]), in_rows(sb.load([0, column // 128, k // 128, 0, 0]), BN, BK // 32)
        acc = tl.dot_scaled(left, of_left, "e4m3", right.T, of_right, "e5m2", acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def unscaled(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same without scales."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def with_one(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One tensor is both operands."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        left, of_left = a.load([row, k]), in_rows(sa.load([0, row // 128, k // 128, 0, 0]), BM, BK // 32)
        acc = tl.dot_scaled(left, of_left, "e5m2", left.T, of_left, "e5m2", acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def by_pointers(a, sa, b, sb, c, K, stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Scales behind pointers, rows of 512 bytes for each 64 of K: e2m1 in blocks of 16."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    inner = tl.arange(0, BK * 8)
    of_rows = sa + (row // 128 + tl.arange(0, BM // 128))[:, None] * stride + inner[None, :]
    of_columns = sb + (column // 128 + tl.arange(0, BN // 128))[:, None] * stride + inner[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        of_a, of_b = in_rows(tl.load(of_rows), BM, BK // 16), in_rows(tl.load(of_columns), BN, BK // 16)
        left, right = a.load([row, k * (BK // 2)]), b.load([column, k * (BK // 2)])
        acc = tl.dot_scaled(left, of_a, "e2m1", right.T, of_b, "e2m1", acc)
        of_rows += BK * 8
        of_columns += BK * 8
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def instead(a, sa, b, sb, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    """What is written where there is no such product: scales [blocks, rows] of type e8m0, multiplied in afterwards."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    i, j = row + tl.arange(0, BM), column + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, 32):
        of_a = tl.load(sa + (k // 32) * M + i, mask=i < M, other=0).to(tl.int32) << 23
        of_b = tl.load(sb + (k // 32) * N + j, mask=j < N, other=0).to(tl.int32) << 23
        of_a, of_b = of_a.to(tl.float32, bitcast=True), of_b.to(tl.float32, bitcast=True)
        acc += tl.dot(a.load([row, k]), b.load([column, k]).T) * of_a[:, None] * of_b[None, :]
    c.store([row, column], acc.to(c.dtype))
