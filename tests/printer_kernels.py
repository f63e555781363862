"""Small kernels whose printed text uses what the examples' does not: narrow swizzles, transposes, sums of columns."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def across(
    a_desc, b_desc, c_desc, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = A B, B with N along its rows."""
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([row, k])
        b = b_desc.load([k, column])
        acc = tl.dot(a, b, acc)
    c_desc.store([row, column], acc.to(tl.bfloat16))


@triton.jit
def along(
    a_desc, b_desc, c_desc, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = exp(A B^T / 256), both with K along their rows."""
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([row, k])
        b = b_desc.load([column, k])
        acc = tl.dot(a, b.T, acc)
    c_desc.store([row, column], tl.exp(acc * 0.00390625))


@triton.jit
def gelu(
    a_desc, b_desc, c_desc, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """C = gelu(A B) in half precision."""
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([row, k])
        b = b_desc.load([k, column])
        acc = tl.dot(a, b, acc)
    c = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    c_desc.store([row, column], c.to(tl.float16))


@triton.jit
def columns(
    a_desc, b_desc, s_ptr, m_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sums of the columns and maxima of the rows of each tile of A B; all sums of one column are added up."""
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([row, k])
        b = b_desc.load([k, column])
        acc = tl.dot(a, b, acc)
    offs_m = row + tl.arange(0, BLOCK_M)
    offs_n = column + tl.arange(0, BLOCK_N)
    tl.atomic_add(s_ptr + offs_n, tl.sum(acc, 0), mask=offs_n < N)
    tl.store(m_ptr + tl.program_id(1) * M + offs_m, tl.max(acc, 1), mask=offs_m < M)


@triton.jit
def integers(x_ptr, y_ptr, z_ptr, N, shift, BLOCK: tl.constexpr):
    """Signed and unsigned numbers, shifted, compared, divided, narrowed."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=7)
    y = tl.load(y_ptr + offs, mask=offs < N, other=3).to(tl.int32)
    u = x.to(tl.uint32)
    small = (x >> 3).to(tl.int8)
    mixed = tl.where(u > 2147483000, (u >> shift).to(tl.int32), x // (y * y + 1))
    z = mixed + small.to(tl.int32) * 5 - (u % 7).to(tl.int32)
    tl.store(z_ptr + offs, tl.where((y & 7) > (x & 7), z, z + 1), mask=offs < N)
