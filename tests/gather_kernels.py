"""Kernels whose addresses are loaded, or computed element by element: gathers, scatters, tables of pages."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def gather_rows(x_ptr, rows_ptr, y_ptr, n, stride, D: tl.constexpr, BLOCK: tl.constexpr):
    """y[i] = 2 x[rows[i]]: an embedding."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows = tl.load(rows_ptr + i, mask=i < n, other=0)
    j = tl.arange(0, D)
    x = tl.load(x_ptr + rows[:, None] * stride + j[None, :], mask=(i < n)[:, None], other=0.0)
    tl.store(y_ptr + i[:, None] * D + j[None, :], x * 2, mask=(i < n)[:, None])


@triton.jit
def scatter_rows(x_ptr, rows_ptr, y_ptr, n, stride, D: tl.constexpr, BLOCK: tl.constexpr):
    """y[rows[i]] = x[i] + 1 where rows[i] >= 2."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows = tl.load(rows_ptr + i)
    j = tl.arange(0, D)
    x = tl.load(x_ptr + i[:, None] * D + j[None, :])
    tl.store(y_ptr + rows[:, None] * stride + j[None, :], x + 1, mask=(rows >= 2)[:, None])


@triton.jit
def add_rows(x_ptr, rows_ptr, y_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    """y[rows[i]] += x[i], atomically: rows may come twice."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows = tl.load(rows_ptr + i // 2)
    j = tl.arange(0, D)
    x = tl.load(x_ptr + i[:, None] * D + j[None, :])
    tl.atomic_add(y_ptr + rows[:, None] * D + j[None, :], x, mask=(i < n)[:, None])


@triton.jit
def halves(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Indices that are divided, wrapped round, masked bit by bit and clipped, with results that need them."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i // 3 * 5 + i % 7 + (i & 6) + (i >> 2)) + tl.load(x_ptr + tl.minimum(i, 300))
    tl.store(y_ptr + i, x)


@triton.jit
def table(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """A table inside of a table, by elements."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(x_ptr + i)
    second = tl.load(x_ptr + first)
    tl.store(y_ptr + i, tl.load(x_ptr + second + 3) + i)


@triton.jit
def routed_gemm(
    a_ptr, b_ptr, c_ptr, token_ptr, expert_ptr, n, K, sa, sbe, sbk, sc,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, TOP: tl.constexpr,
):  # fmt: skip
    """The GEMM of a mixture of experts: rows of A by token, B by expert, rows of C by token."""
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    token = tl.load(token_ptr + i)
    expert = tl.load(expert_ptr + tl.program_id(0))
    j = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + (token // TOP)[:, None] * sa + k[None, :]
    b = b_ptr + expert * sbe + k[:, None] * sbk + j[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for at in range(0, tl.cdiv(K, BLOCK_K)):
        left = tl.load(a, mask=(token < n)[:, None] & (k[None, :] < K - at * BLOCK_K), other=0.0)
        right = tl.load(b, mask=k[:, None] < K - at * BLOCK_K, other=0.0)
        acc = tl.dot(left, right, acc)
        a += BLOCK_K
        b += BLOCK_K * sbk
    tl.store(c_ptr + token[:, None] * sc + j[None, :], acc.to(tl.bfloat16), mask=(token < n)[:, None])


@triton.jit
def pages(k_ptr, table_ptr, scale_ptr, y_ptr, n, stride, D: tl.constexpr, PAGE: tl.constexpr):
    """y = sum of scale[i] k[table[i]]: pages of a cache, one number looked up in each iteration for the address and one
    for the sum."""
    first = tl.program_id(0) * n
    i, j = tl.arange(0, PAGE), tl.arange(0, D)
    acc = tl.zeros((PAGE, D), tl.float32)
    for at in range(0, n):
        page = tl.load(table_ptr + first + at)
        k = tl.load(k_ptr + page * stride + i[:, None] * D + j[None, :])
        acc += k.to(tl.float32) * tl.load(scale_ptr + first + at)
    tl.store(y_ptr + tl.program_id(0) * PAGE * D + i[:, None] * D + j[None, :], acc)


@triton.jit
def slots(k_ptr, table_ptr, y_ptr, n, N_SLOTS, D: tl.constexpr, BLOCK: tl.constexpr):
    """As `pages`, with a page for each row: tiles of row numbers in each iteration, masked at the end."""
    i, j = tl.arange(0, BLOCK), tl.arange(0, D)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for at in range(0, n):
        place = at * BLOCK + i
        there = place < N_SLOTS
        slot = tl.load(table_ptr + tl.program_id(0) * N_SLOTS + place, mask=there, other=0)
        k = tl.load(k_ptr + slot[:, None] * D + j[None, :], mask=there[:, None] & (slot >= 1)[:, None], other=1.0)
        acc += k.to(tl.float32)
    tl.store(y_ptr + tl.program_id(0) * BLOCK * D + i[:, None] * D + j[None, :], acc)


@triton.jit
def combined(x_ptr, rows_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """Every atomic combination of whole numbers whose old value nothing reads, of rows that may come twice."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rows = tl.load(rows_ptr + i)
    x = tl.load(x_ptr + i) - 3
    tl.atomic_max(y_ptr + rows * 5, x, mask=i < n)
    tl.atomic_min(y_ptr + rows * 5 + 1, x, mask=i < n)
    tl.atomic_and(y_ptr + rows * 5 + 2, x)
    tl.atomic_or(y_ptr + rows * 5 + 3, x)
    tl.atomic_xor(y_ptr + rows * 5 + 4, x)
