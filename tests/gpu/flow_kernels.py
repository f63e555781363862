"""Kernels with control flow, scans and small products, as users write them, for checks on a GPU."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def persistent_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, sa, sb, sc,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SMS: tl.constexpr,
):  # fmt: skip
    """A loop over tiles around the loop over K."""
    start = tl.program_id(0)
    tiles_m, tiles_n, steps = tl.cdiv(M, BM), tl.cdiv(N, BN), tl.cdiv(K, BK)
    k = tl.arange(0, BK)
    for tile in tl.range(start, tiles_m * tiles_n, SMS):
        width = GROUP * tiles_n
        first = tile // width * GROUP
        rows = min(tiles_m - first, GROUP)
        m = (first + tile % rows) * BM
        n = tile % width // rows * BN
        i, j = m + tl.arange(0, BM), n + tl.arange(0, BN)
        i, j = tl.where(i < M, i, 0), tl.where(j < N, j, 0)
        acc = tl.zeros((BM, BN), tl.float32)
        for step in range(steps):
            ks = step * BK + k
            a = tl.load(a_ptr + i[:, None] * sa + ks[None, :], mask=ks[None, :] < K, other=0.0)
            b = tl.load(b_ptr + ks[:, None] * sb + j[None, :], mask=ks[:, None] < K, other=0.0)
            acc = tl.dot(a, b, acc)
        i, j = m + tl.arange(0, BM), n + tl.arange(0, BN)
        tl.store(c_ptr + i[:, None] * sc + j[None, :], acc.to(tl.float16), mask=(i < M)[:, None] & (j < N)[None, :])


@triton.jit
def plain_gemm(
    a_ptr, b_ptr, c_ptr, M, N, K, sa, sb, sc,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """One tile a program; also with tiles of few rows."""
    tile = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    width = GROUP * tiles_n
    first = tile // width * GROUP
    rows = min(tiles_m - first, GROUP)
    m = (first + tile % rows) * BM
    n = tile % width // rows * BN
    i, j, k = m + tl.arange(0, BM), n + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        ks = step * BK + k
        a = tl.load(a_ptr + i[:, None] * sa + ks[None, :], mask=(i < M)[:, None] & (ks < K)[None, :], other=0.0)
        b = tl.load(b_ptr + ks[:, None] * sb + j[None, :], mask=(ks < K)[:, None] & (j < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i[:, None] * sc + j[None, :], acc.to(tl.float16), mask=(i < M)[:, None] & (j < N)[None, :])


@triton.jit
def running_sums(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """A scan of each row."""
    j = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    x = tl.load(x_ptr + row + j, mask=j < columns, other=0.0)
    tl.store(y_ptr + row + j, tl.cumsum(x, 0), mask=j < columns)


@triton.jit
def sequences(x_ptr, ends_ptr, y_ptr, D: tl.constexpr):
    """Sums along sequences of different lengths: the bounds of the loop are loaded."""
    i, j = tl.program_id(0), tl.arange(0, D)
    s = tl.zeros([D], tl.float32)
    for t in range(tl.load(ends_ptr + i), tl.load(ends_ptr + i + 1)):
        s += tl.load(x_ptr + t * D + j)
        tl.store(y_ptr + t * D + j, s)


@triton.jit
def powers(x_ptr, y_ptr, rows, times, D: tl.constexpr):
    """A loop in a loop."""
    j = tl.arange(0, D)
    total = tl.zeros([D], tl.float32)
    for r in range(rows):
        x = tl.load(x_ptr + r * D + j)
        p = x * 0.0 + 1.0
        for _ in range(times):
            p = p * x
        total += p
    tl.store(y_ptr + j, total)


@triton.jit
def while_gemm(a_ptr, b_ptr, c_ptr, tiles, K, B: tl.constexpr, PROGRAMS: tl.constexpr):
    """A loop over tiles and one over K, both written as `while`."""
    t, ks = tl.program_id(0), tl.arange(0, B)
    while t < tiles:
        rows = t * B + tl.arange(0, B)
        acc = tl.zeros([B, B], tl.float32)
        k = 0
        while k < K:
            x = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :])
            y = tl.load(b_ptr + (k + ks)[:, None] * B + ks[None, :])
            acc = tl.dot(x, y, acc)
            k += B
        tl.store(c_ptr + rows[:, None] * B + ks[None, :], acc.to(tl.float16))
        t += PROGRAMS


@triton.jit
def while_down(x_ptr, ends_ptr, y_ptr, D: tl.constexpr):
    """Each sequence from its end; the counter is stored."""
    i, j = tl.program_id(0), tl.arange(0, D)
    first, t = tl.load(ends_ptr + i), tl.load(ends_ptr + i + 1)
    s = tl.zeros([D], tl.float32)
    while t > first:
        t -= 1
        s = s * 0.5 + tl.load(x_ptr + t * D + j)
    tl.store(y_ptr + i * D + j, s + t)


@triton.jit
def histogram(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """How often each remainder comes."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(y_ptr + (x * 3 & 63), 1, mask=(i < n) & (x > 2))


@triton.jit
def extremes(x_ptr, most_ptr, least_ptr, n, BLOCK: tl.constexpr):
    """The largest and the least number of each column."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_max(most_ptr + i % 64, x, mask=i < n)
    tl.atomic_min(least_ptr + i % 64, x, mask=i < n)


@triton.jit
def keep_positive(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """The positive numbers of each block, close together: stores go where a scan says."""
    first = tl.program_id(0) * BLOCK
    x = tl.load(x_ptr + first + tl.arange(0, BLOCK))
    keep = x > 0
    tl.store(y_ptr + first + tl.cumsum(keep.to(tl.int32), 0) - 1, x, mask=keep)


@triton.jit
def largest(x_ptr, most_ptr, where_ptr, least_ptr, R: tl.constexpr, C: tl.constexpr):
    """The first of the largest of each row, and of the least of each column."""
    i, j = tl.arange(0, R), tl.arange(0, C)
    x = tl.load(x_ptr + tl.program_id(0) * R * C + i[:, None] * C + j[None, :])
    most, where = tl.max(x, 1, return_indices=True)
    row, column = tl.program_id(0) * R + i, tl.program_id(0) * C + j
    tl.store(most_ptr + row, most)
    tl.store(where_ptr + row, where)
    tl.store(least_ptr + column, tl.argmin(x, 0))


@triton.jit
def block_scaled(
    a_ptr, b_ptr, as_ptr, bs_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Products of fp8 with a scale for each row of A and each 128 columns of B, per BK of K. B is N x K."""
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    steps = tl.cdiv(K, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(steps):
        ks = step * BK + k
        a = tl.load(a_ptr + m[:, None] * K + ks[None, :], mask=(m < M)[:, None] & (ks < K)[None, :], other=0.0)
        b = tl.load(b_ptr + n[None, :] * K + ks[:, None], mask=(n < N)[None, :] & (ks < K)[:, None], other=0.0)
        rows = tl.load(as_ptr + m * steps + step, mask=m < M, other=0.0)
        columns = tl.load(bs_ptr + n // 128 * steps + step, mask=n < N, other=0.0)
        acc += tl.dot(a, b) * rows[:, None] * columns[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m < M)[:, None] & (n < N)[None, :])
