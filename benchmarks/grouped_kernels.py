"""Products in plain Triton: one launch for each, one persistent launch, and one for a group of them."""

import triton
import triton.language as tl


@triton.jit
def plain(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """C = A B, row-major and whole; a program for each tile, GROUP rows of tiles together."""
    tile = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tile // (GROUP * columns) * GROUP
    high = min(rows - first, GROUP)
    row = (first + tile % (GROUP * columns) % high) * BM
    column = tile % (GROUP * columns) // high * BN
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        acc = tl.dot(a.load([row, step * BK]), b.load([step * BK, column]), acc)
    c.store([row, column], acc.to(tl.float16))


@triton.jit
def persistent(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """The same by PROGRAMS programs, each with every PROGRAMS-th tile."""
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    for tile in tl.range(tl.program_id(0), rows * columns, PROGRAMS):
        first = tile // (GROUP * columns) * GROUP
        high = min(rows - first, GROUP)
        row = (first + tile % (GROUP * columns) % high) * BM
        column = tile % (GROUP * columns) // high * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for step in range(tl.cdiv(K, BK)):
            acc = tl.dot(a.load([row, step * BK]), b.load([step * BK, column]), acc)
        c.store([row, column], acc.to(tl.float16))


@triton.jit
def grouped(
    lefts, rights, results, sizes, count,
    PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`count` products: addresses of A, B and C and their M, N and K are in memory; tiles are taken in turn."""
    tile, first = tl.program_id(0), 0
    for product in range(count):
        m = tl.load(sizes + 3 * product)
        n = tl.load(sizes + 3 * product + 1)
        k = tl.load(sizes + 3 * product + 2)
        columns = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * columns
        if tile >= first and tile < first + tiles:
            left = tl.load(lefts + product).to(tl.pointer_type(tl.float16))
            right = tl.load(rights + product).to(tl.pointer_type(tl.float16))
            result = tl.load(results + product).to(tl.pointer_type(tl.float16))
            a = tl.make_tensor_descriptor(left, shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
            b = tl.make_tensor_descriptor(right, shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
            c = tl.make_tensor_descriptor(result, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
            while tile >= first and tile < first + tiles:
                row, column = (tile - first) // columns * BM, (tile - first) % columns * BN
                acc = tl.zeros((BM, BN), tl.float32)
                for step in range(tl.cdiv(k, BK)):
                    acc = tl.dot(a.load([row, step * BK]), b.load([step * BK, column]), acc)
                c.store([row, column], acc.to(tl.float16))
                tile += PROGRAMS
        first += tiles
