"""Small kernels whose printed text uses what the examples' does not: narrow swizzles, transposes, sums of columns."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl
from triton.language.extra import libdevice


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


@triton.jit
def functions(x_ptr, e_ptr, u_ptr, f_ptr, g_ptr, h_ptr, N, BLOCK: tl.constexpr):
    """Powers and other functions of CUDA's library; upper halves of products; eight bits that are moved and made."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < N
    x = tl.load(x_ptr + offs, mask=inside, other=1.0)
    e = tl.load(e_ptr + offs, mask=inside, other=0.0)
    u = tl.load(u_ptr + offs, mask=inside, other=0)
    first = libdevice.pow(tl.abs(x) + 0.25, x) + libdevice.atan2(x, x + 3.0) * 4 + libdevice.log1p(tl.abs(x))
    second = libdevice.hypot(x, 2.0) + libdevice.expm1(x * 0.125) * 4 + libdevice.trunc(x * 8) * 0.125
    third = libdevice.rint(x) + libdevice.round(x) * 16 + libdevice.cosh(x * 0.25) * 64
    tl.store(f_ptr + offs, first, mask=inside)
    tl.store(f_ptr + N + offs, second, mask=inside)
    tl.store(f_ptr + 2 * N + offs, third, mask=inside)
    tl.store(g_ptr + offs, tl.umulhi(u * 77777777, u * 12345677 + 3), mask=inside)
    small = tl.where(x > 0, e, x.to(tl.float8e5))
    tl.store(h_ptr + offs, small, mask=inside)
    tl.store(h_ptr + N + offs, x.to(tl.float8e5, fp_downcast_rounding="rtz"), mask=inside)


@triton.jit
def extremes(x_ptr, i_ptr, w_ptr, most_ptr, least_ptr, unsigned_ptr, at_ptr, N, B: tl.constexpr, D: tl.constexpr):
    """Where the largest and the smallest element of each row are; extremes at addresses that are data, under masks."""
    rows, columns = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, D)
    inside = rows < N
    x = tl.load(x_ptr + rows[:, None] * D + columns, mask=inside[:, None], other=0.0)
    place = tl.load(i_ptr + rows, mask=inside, other=0)
    weight = tl.load(w_ptr + rows, mask=inside, other=0)
    tl.store(at_ptr + rows, tl.argmax(x, 1), mask=inside)
    tl.store(at_ptr + N + rows, tl.argmin(x, 1), mask=inside)
    some = inside & (weight > 2)
    tl.atomic_max(most_ptr + place, tl.max(x, 1) - 3, mask=some)
    tl.atomic_min(least_ptr + place, tl.min(x, 1) + 3, mask=inside)
    tl.atomic_max(unsigned_ptr + place, (weight - 4).to(tl.uint32), mask=inside)


@triton.jit
def scattered(x_ptr, i_ptr, y_ptr, N, BLOCK: tl.constexpr):
    """Stores at addresses that are data, under a mask that is data, too."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < N
    place = tl.load(i_ptr + offs, mask=inside, other=0)
    x = tl.load(x_ptr + offs, mask=inside, other=0.0)
    tl.store(y_ptr + place, x * 2, mask=inside & (x > 0))
