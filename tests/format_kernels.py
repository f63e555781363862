"""Kernels whose operands or scales are of types and layouts that no example has, for the B200.

All of them compute C = A B^T, A [M, K], B [N, K], C [M, N], row-major.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def gemm_tf32(
    a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """f32, multiplied as `PRECISION` says: Triton's default is tf32."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([row, k * BLOCK_K])
        b = b_desc.load([column, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc, input_precision=PRECISION)
    c_desc.store([row, column], acc)


@triton.jit
def gemm_plain_scales(
    a_desc, a_scales, b_desc, b_scales, c_desc, M, N, K, BLOCKS, KIND: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PER_BYTE: tl.constexpr,
):  # fmt: skip
    """Scales [M, K / BLOCK] and [N, K / BLOCK] behind pointers, BLOCKS = cdiv(K, BLOCK) in a row."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    rows, columns = row + tl.arange(0, BLOCK_M), column + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K // BLOCK)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([row, k * (BLOCK_K // PER_BYTE)])
        b = b_desc.load([column, k * (BLOCK_K // PER_BYTE)])
        along = k * (BLOCK_K // BLOCK) + inner
        of_a = tl.load(a_scales + rows[:, None] * BLOCKS + along[None, :],
                       mask=(rows[:, None] < M) & (along[None, :] < BLOCKS), other=0.0)  # fmt: skip
        of_b = tl.load(b_scales + columns[:, None] * BLOCKS + along[None, :],
                       mask=(columns[:, None] < N) & (along[None, :] < BLOCKS), other=0.0)  # fmt: skip
        acc = tl.dot_scaled(a, of_a, KIND, b.T, of_b, KIND, acc)
    c_desc.store([row, column], acc.to(c_desc.dtype))


@triton.jit
def across(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """B [K, N] of f32, whose rows lie along N."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    c.store([row, column], acc)


@triton.jit
def computed_scales(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Scales of A that the kernel changes first."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        of_a, of_b = sa.load([row, k // 32]) + 1, sb.load([column, k // 32])
        acc = tl.dot_scaled(a.load([row, k]), of_a, "e4m3", b.load([column, k]).T, of_b, "e4m3", acc)
    c.store([row, column], acc.to(c.dtype))
