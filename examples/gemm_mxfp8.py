"""C = A B^T with A and B in mxfp8: e4m3 in blocks of 32 along K, each with a scale of type e8m0 (a power of two).

A is [M, K], B is [N, K], C is [M, N] in bf16, all row-major. The scales of A are [1, cdiv(M, 128), cdiv(K, 128), 2, 256]
bytes, those of B likewise with N: 128 rows times 4 blocks along K are 512 bytes, in the order in which the tensor core
reads them, as in Triton's tutorial 10, cuBLAS and CUTLASS: the scale of row r and block k of the 512 is at byte
(r % 32) * 16 + r // 32 * 4 + k. The descriptors are made on the host; those of scales have blocks
[1, BLOCK_M // 128, BLOCK_K // 128, 2, 256].
"""

import triton
import triton.language as tl


@triton.jit
def tile_of_program(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """Which tile of C a program makes: GROUP_M rows of tiles at a time, so that L2 holds their operands."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles_in_group = GROUP_M * tiles_n
    first_m = (pid // tiles_in_group) * GROUP_M
    group_m = min(tiles_m - first_m, GROUP_M)
    pid_m = first_m + (pid % tiles_in_group) % group_m
    pid_n = (pid % tiles_in_group) // group_m
    return pid_m, pid_n


@triton.jit
def in_rows(scales, ROWS: tl.constexpr, BLOCKS: tl.constexpr):
    """A tile of scales as [ROWS, BLOCKS]."""
    scales = scales.reshape(ROWS // 128, BLOCKS // 4, 32, 4, 4)
    return scales.trans(0, 3, 2, 1, 4).reshape(ROWS, BLOCKS)


@triton.jit
def gemm_mxfp8(
    a_desc, a_scales, b_desc, b_scales, c_desc, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = tile_of_program(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    row = pid_m * BLOCK_M
    column = pid_n * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([row, k * BLOCK_K])
        b = b_desc.load([column, k * BLOCK_K])
        a_scale = in_rows(a_scales.load([0, row // 128, k * (BLOCK_K // 128), 0, 0]), BLOCK_M, BLOCK_K // 32)
        b_scale = in_rows(b_scales.load([0, column // 128, k * (BLOCK_K // 128), 0, 0]), BLOCK_N, BLOCK_K // 32)
        acc = tl.dot_scaled(a, a_scale, "e4m3", b.T, b_scale, "e4m3", acc)
    c_desc.store([row, column], acc.to(tl.bfloat16))
