"""Kernels whose operands or scales are of types and layouts that no example has, for the B200.

All of them compute C = A B^T, A [M, K], B [N, K], C [M, N], row-major.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def in_rows(scales, ROWS: tl.constexpr, BLOCKS: tl.constexpr):
    """A tile of scales in chunks as [ROWS, BLOCKS]."""
    return scales.reshape(ROWS // 128, BLOCKS // 4, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(ROWS, BLOCKS)


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
def gemm_int8(
    a_desc, b_desc, c_desc, M, N, K, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    SCALED: tl.constexpr,
):  # fmt: skip
    """int8 into int32, with SCALED times a scale as bf16."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.int32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([row, k * BLOCK_K])
        b = b_desc.load([column, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
    c_desc.store([row, column], (acc.to(tl.float32) * scale).to(tl.bfloat16) if SCALED else acc)


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


@triton.jit
def gemm_fp8_fp4(
    a_desc, a_scales, b_desc, b_scales, c_desc, M, N, K, A: tl.constexpr, B: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    A_BYTES: tl.constexpr, B_BYTES: tl.constexpr,
):  # fmt: skip
    """One of A and B has elements of 8 bits, the other one of 4; A_BYTES, B_BYTES: of BLOCK_K. Scales in chunks."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([row, k * A_BYTES])
        b = b_desc.load([column, k * B_BYTES])
        of_a = in_rows(a_scales.load([0, row // 128, k * (BLOCK_K // 128), 0, 0]), BLOCK_M, BLOCK_K // 32)
        of_b = in_rows(b_scales.load([0, column // 128, k * (BLOCK_K // 128), 0, 0]), BLOCK_N, BLOCK_K // 32)
        acc = tl.dot_scaled(a, of_a, A, b.T, of_b, B, acc)
    c_desc.store([row, column], acc.to(c_desc.dtype))


@triton.jit
def one_b_twice(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two tiles of A by one of B, which has 4 bits."""
    row, column = tl.program_id(0) * 2 * BM, tl.program_id(1) * BN
    x = tl.zeros((BM, BN), dtype=tl.float32)
    y = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        right, of_b = b.load([column, k // 2]), in_rows(sb.load([0, column // 128, k // 128, 0, 0]), BN, BK // 32)
        of_x, of_y = sa.load([0, row // 128, k // 128, 0, 0]), sa.load([0, row // 128 + 1, k // 128, 0, 0])
        x = tl.dot_scaled(a.load([row, k]), in_rows(of_x, BM, BK // 32), "e4m3", right.T, of_b, "e2m1", x)
        y = tl.dot_scaled(a.load([row + BM, k]), in_rows(of_y, BM, BK // 32), "e4m3", right.T, of_b, "e2m1", y)
    c.store([row, column], (x * y).to(c.dtype))


@triton.jit
def changed_b(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """B of 4 bits that the kernel changes first: the signs of all elements."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        of_a = in_rows(sa.load([0, row // 128, k // 128, 0, 0]), BM, BK // 32)
        of_b = in_rows(sb.load([0, column // 128, k // 128, 0, 0]), BN, BK // 32)
        right = b.load([column, k // 2]) ^ 0x88
        acc = tl.dot_scaled(a.load([row, k]), of_a, "e4m3", right.T, of_b, "e2m1", acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def b_read_otherwise(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """B of 4 bits is multiplied, and its bytes are summed up."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    total = tl.zeros((BN,), dtype=tl.float32)
    for k in range(0, K, BK):
        of_a = in_rows(sa.load([0, row // 128, k // 128, 0, 0]), BM, BK // 32)
        of_b = in_rows(sb.load([0, column // 128, k // 128, 0, 0]), BN, BK // 32)
        right = b.load([column, k // 2])
        acc = tl.dot_scaled(a.load([row, k]), of_a, "e4m3", right.T, of_b, "e2m1", acc)
        total += tl.sum(right.to(tl.float32), 1)
    c.store([row, column], (acc + total[None, :]).to(c.dtype))


@triton.jit
def plain_scales_of_b(a, sa, b, sb, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """e4m3 x e2m1 with scales [rows, blocks]."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        of_a, of_b = sa.load([row, k // 32]), sb.load([column, k // 32])
        acc = tl.dot_scaled(a.load([row, k]), of_a, "e4m3", b.load([column, k // 2]).T, of_b, "e2m1", acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def gemm_by_threads(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B of bf16, rows at any distance: no tensor map has them, threads load both operands."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for at in range(0, tl.cdiv(K, BK)):
        along = at * BK + k
        x = tl.load(a + i[:, None] * sa + along[None, :], mask=(i[:, None] < M) & (along[None, :] < K), other=0.0)
        y = tl.load(b + along[:, None] * sb + j[None, :], mask=(along[:, None] < K) & (j[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * sc + j[None, :], acc.to(tl.bfloat16), mask=(i[:, None] < M) & (j[None, :] < N))


@triton.jit
def summed_by_threads(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same, with the sums of the rows of A added."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for at in range(0, tl.cdiv(K, BK)):
        along = at * BK + k
        x = tl.load(a + i[:, None] * sa + along[None, :], mask=(i[:, None] < M) & (along[None, :] < K), other=0.0)
        y = tl.load(b + along[:, None] * sb + j[None, :], mask=(along[:, None] < K) & (j[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        total += tl.sum(x.to(tl.float32), 1)
    made = (acc + total[:, None]).to(tl.bfloat16)
    tl.store(c + i[:, None] * sc + j[None, :], made, mask=(i[:, None] < M) & (j[None, :] < N))
