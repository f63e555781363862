"""Kernels that look up where their tensors are, and loops around work of which numbers in memory say how much there is.
The table of each is in `walk_kernels.twill.toml`."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def scaled_rows(sources, targets, lengths, B: tl.constexpr):
    """targets[i][:] = 2 * sources[i][:], of vectors that lie anywhere."""
    i = tl.program_id(0)
    source = tl.load(sources + i).to(tl.pointer_type(tl.float32))
    target = tl.load(targets + i).to(tl.pointer_type(tl.float32))
    n = tl.load(lengths + i)
    offsets = tl.program_id(1) * B + tl.arange(0, B)
    row = tl.load(source + offsets, mask=offsets < n)
    tl.store(target + offsets, row * 2.0, mask=offsets < n)


@triton.jit
def products(
    lefts, rights, results, sizes, strides, count,
    PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Of several pairs of matrices, in tiles that programs take in turn."""
    tile, first = tl.program_id(0), 0
    for p in range(count):
        m, n, k = tl.load(sizes + 3 * p), tl.load(sizes + 3 * p + 1), tl.load(sizes + 3 * p + 2)
        columns = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * columns
        while tile >= first and tile < first + tiles:
            left = tl.load(lefts + p).to(tl.pointer_type(tl.float16))
            right = tl.load(rights + p).to(tl.pointer_type(tl.float16))
            result = tl.load(results + p).to(tl.pointer_type(tl.float16))
            along_m, along_k = tl.load(strides + 3 * p), tl.load(strides + 3 * p + 1)
            along_n = tl.load(strides + 3 * p + 2)
            rows = (tile - first) // columns * BM + tl.arange(0, BM)
            cols = (tile - first) % columns * BN + tl.arange(0, BN)
            depth = tl.arange(0, BK)
            total = tl.zeros((BM, BN), dtype=tl.float32)
            lefts_at = tl.multiple_of(left + rows[:, None] * along_m + depth[None, :], [16, 16])
            rights_at = tl.multiple_of(right + depth[:, None] * along_k + cols[None, :], [16, 16])
            for _ in range(0, tl.cdiv(k, BK)):
                total = tl.dot(tl.load(lefts_at), tl.load(rights_at), total)
                lefts_at += BK
                rights_at += BK * along_k
            tl.store(result + rows[:, None] * along_n + cols[None, :], total.to(tl.float16))
            tile += PROGRAMS
        first += tiles


@triton.jit
def described_products(
    lefts, rights, results, sizes, count, blank, dropped,
    PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The same of matrices of any size, by descriptors that are made where a program has some of their tiles. The last
    `blank` rows of the left ones are zeros, the last `dropped` rows of results are not stored."""
    tile, first = tl.program_id(0), 0
    for p in range(count):
        m, n, k = tl.load(sizes + 3 * p), tl.load(sizes + 3 * p + 1), tl.load(sizes + 3 * p + 2)
        columns = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * columns
        if tile >= first and tile < first + tiles:
            left = tl.load(lefts + p).to(tl.pointer_type(tl.float16))
            right = tl.load(rights + p).to(tl.pointer_type(tl.float16))
            result = tl.load(results + p).to(tl.pointer_type(tl.float16))
            lefts_at = tl.make_tensor_descriptor(left, shape=[m - blank, k], strides=[k, 1], block_shape=[BM, BK])
            rights_at = tl.make_tensor_descriptor(right, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
            results_at = tl.make_tensor_descriptor(result, shape=[m - dropped, n], strides=[n, 1], block_shape=[BM, BN])
            while tile >= first and tile < first + tiles:
                row, column = (tile - first) // columns * BM, (tile - first) % columns * BN
                total = tl.zeros((BM, BN), dtype=tl.float32)
                for step in range(0, tl.cdiv(k, BK)):
                    total = tl.dot(lefts_at.load([row, step * BK]), rights_at.load([step * BK, column]), total)
                results_at.store([row, column], total.to(tl.float16))
                tile += PROGRAMS
        first += tiles


@triton.jit
def stream_k(
    a_ptr, b_ptr, c_ptr, locks, K, stride_am, stride_bk, stride_cm, columns, iterations, whole, rest,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A share of all iterations of all tiles for each program: who ends a tile stores it, the others add to it."""
    pid = tl.program_id(0)
    start = pid * whole + tl.minimum(pid, rest)
    last = (pid + 1) * whole + tl.minimum(pid + 1, rest)
    while start < last:
        end = tl.minimum(start + (iterations - start % iterations), last)
        tile = start // iterations
        rows = tile // columns * BM + tl.arange(0, BM)
        cols = tile % columns * BN + tl.arange(0, BN)
        depth = start % iterations * BK + tl.arange(0, BK)
        a = a_ptr + rows[:, None] * stride_am + depth[None, :]
        b = b_ptr + depth[:, None] * stride_bk + cols[None, :]
        acc = tl.zeros((BM, BN), tl.float32)
        for _ in range(start, end):
            acc += tl.dot(tl.load(a), tl.load(b))
            a += BK
            b += BK * stride_bk
        c = c_ptr + rows[:, None] * stride_cm + cols[None, :]
        if end % iterations == 0:
            tl.store(c, acc)
            if start % iterations != 0:
                tl.atomic_xchg(locks + tile, 1)
        else:
            while tl.atomic_cas(locks + tile, 1, 1) != 1:
                pass
            tl.atomic_add(c, acc)
        start = end


@triton.jit
def chained(x_ptr, parts, y_ptr, locks, n, B: tl.constexpr, PROGRAMS: tl.constexpr):
    """Sums of rows, of which each program has some iterations; a part that another program began is loaded behind its
    flag. What a program stores for others it stores in one place."""
    pid = tl.program_id(0)
    start, last = pid * n // PROGRAMS, (pid + 1) * n // PROGRAMS
    at = tl.arange(0, B)
    while start < last:
        end = tl.minimum((start // 3 + 1) * 3, last)
        total = tl.zeros((B,), tl.float32)
        for i in range(start, end):
            total += tl.load(x_ptr + i * B + at)
        if start % 3 != 0:
            while tl.atomic_cas(locks + pid, 1, 1) != 1:
                pass
            total += tl.load(parts + pid * B + at)
        if end % 3 == 0:
            tl.store(y_ptr + start // 3 * B + at, total)
        else:
            tl.store(parts + (pid + 1) * B + at, total)
            tl.atomic_xchg(locks + pid + 1, 1)
        start = end
