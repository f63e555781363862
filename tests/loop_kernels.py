"""Loops over tiles, loops in loops, loaded trip counts and scans, to be run beside Triton on a GPU:

twill run tests/loop_kernels.py::persistent --machine h100      (and ::columns, ::counts, ::scans)
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def tile_of(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Groups of GROUP rows of tiles, column by column."""
    rows = tl.cdiv(M, BM)
    first = tile // (GROUP * tl.cdiv(N, BN)) * GROUP
    size = min(rows - first, GROUP)
    return first + tile % size, tile % (GROUP * tl.cdiv(N, BN)) // size


@triton.jit
def persistent(
    a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PROGRAMS: tl.constexpr,
):  # fmt: skip
    """A persistent GEMM with a counter of its own for the epilogue."""
    stored = tl.program_id(0) - PROGRAMS
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), PROGRAMS, flatten=True):
        m, n = tile_of(tile, M, N, BM, BN, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(a_desc.load([m * BM, k * BK]), b_desc.load([n * BN, k * BK]).T, acc)
        stored += PROGRAMS
        m, n = tile_of(stored, M, N, BM, BN, GROUP)
        c_desc.store([m * BM, n * BN], acc.to(tl.float16))


@triton.jit
def columns(a_desc, b_desc, c_desc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A row of tiles: sums that go on from tile to tile around a GEMM."""
    m = tl.program_id(0) * BM
    s = tl.zeros([BM, BN], tl.float32)
    for n in range(0, N, BN):
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
        s = s * 0.5 + acc
        c_desc.store([m, n], s.to(tl.float16))


@triton.jit
def counts(a, b, c, lengths, K, B: tl.constexpr):
    """A GEMM whose K is loaded for each row of tiles, in units of B, at most 8 of them."""
    i = tl.program_id(0)
    n = min(tl.load(lengths + i), 8) * B
    rows, ks = i * B + tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros([B, B], tl.float32)
    for k in range(0, n, B):
        x = tl.load(a + rows[:, None] * K + (k + ks)[None, :])
        acc = tl.dot(x, tl.load(b + (k + ks)[:, None] * B + ks[None, :]), acc)
    tl.store(c + rows[:, None] * B + ks[None, :], acc.to(tl.float16))


@triton.jit
def scans(x, y, z, R: tl.constexpr, C: tl.constexpr):
    """Sums along both axes of a matrix, and products of a vector."""
    i = tl.program_id(0)
    at = i * R * C + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + at).to(tl.float32)
    tl.store(y + at, tl.cumsum(v, 0) + tl.cumsum(v, 1, reverse=True))
    tl.store(z + i * R + tl.arange(0, R), tl.cumprod(tl.sum(v, 1) * 0.001 + 1, 0))
