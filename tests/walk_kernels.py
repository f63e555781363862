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
