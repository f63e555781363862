"""C = A B^T with A and B in fp8 (e4m3), f32 accumulation and C in bf16, tiles moved by tensor descriptors.

A is [M, K], B is [N, K], C is [M, N], all row-major: the tensor cores of Hopper read fp8 operands along K only. The
three descriptors are made on the host with blocks [BLOCK_M, BLOCK_K], [BLOCK_N, BLOCK_K] and [BLOCK_M, BLOCK_N].
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
def gemm_fp8(
    a_desc, b_desc, c_desc, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = tile_of_program(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    row = pid_m * BLOCK_M
    column = pid_n * BLOCK_N
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([row, k * BLOCK_K])
        b = b_desc.load([column, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
    c = acc.to(tl.bfloat16)
    c_desc.store([row, column], c)
