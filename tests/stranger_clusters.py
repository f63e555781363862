"""Gluon kernels for sm_100a that Twill never emitted: clusters that take over tiles and share copies, block scales.

Each computes a tile with all of its warps, one step after the other.
"""

# ruff: noqa: SIM113
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    clc,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
    tcgen05_mma_scaled,
)
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@gluon.jit
def store(c_desc, row, column, values):
    c = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    c.store(values.to(c_desc.dtype))
    fence_async_shared()
    tma.async_store(c_desc, [row, column], c)
    tma.store_wait(0)


@gluon.jit
def gemm(a_desc, b_desc, c_desc, K, tiles_m, ACC: gl.constexpr):
    """Tiles are fetched from clusters that have not started; copies go to all CTAs that need them."""
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BN: gl.constexpr = b_desc.block_type.shape[1]
    BK: gl.constexpr = a_desc.block_type.shape[1]
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], ACC)
    count: gl.constexpr = tcgen05_mma_barrier_count([a, b], multicast=True, two_ctas=ACC.two_ctas)
    everywhere: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[[0]] * len(ACC.cga_layout))
    answer = gl.allocate_shared_memory(gl.int64, [2], everywhere)
    loaded = mbarrier.allocate_mbarrier(two_ctas=ACC.two_ctas)
    multiplied = mbarrier.allocate_mbarrier()
    answered = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(multiplied, count=count)
    mbarrier.init(answered, count=1)
    tile = gl.program_id(0)
    more = gl.to_tensor(True)
    phase = 0
    step = 0
    while more:
        mbarrier.expect(answered, 16, from_cta=0)
        clc.try_cancel(answer, answered)
        row = (tile % tiles_m) * BM
        column = (tile // tiles_m) * BN
        for k in range(0, K, BK):
            mbarrier.expect(loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
            tma.async_load(a_desc, [row, k], loaded, a, multicast=True)
            tma.async_load(b_desc, [k, column], loaded, b, multicast=True)
            mbarrier.wait(loaded, step & 1)
            tcgen05_mma(a, b, acc, use_acc=k > 0, multicast=True, mbarriers=[multiplied])
            mbarrier.wait(multiplied, step & 1)
            step += 1
        store(c_desc, row, column, acc.load())
        mbarrier.wait(answered, phase)
        said = clc.load_result(answer)
        more = said.is_canceled()
        if more:
            tile = said.program_id(0)
        phase ^= 1
        gl.barrier(cluster=gl.num_ctas() > 1)


@gluon.jit
def scales(memory, ROWS: gl.constexpr, COUNT: gl.constexpr):
    """Blocks of 128 rows x 4 scales as they lie in memory, as a matrix."""
    blocks = memory.reshape((ROWS // 128, COUNT // 4, 32, 4, 4)).permute((0, 3, 2, 1, 4))
    return blocks.reshape((ROWS, COUNT))


@gluon.jit
def scaled_gemm(a_desc, b_desc, sa_desc, sb_desc, c_desc, K, ACC: gl.constexpr, VEC: gl.constexpr, A: gl.constexpr,
                B: gl.constexpr):  # fmt: skip
    """One tile with scales of blocks; by a pair of CTAs too."""
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BN: gl.constexpr = b_desc.block_type.shape[0]
    PA: gl.constexpr = 2 if A == "e2m1" else 1
    PB: gl.constexpr = 2 if B == "e2m1" else 1
    BK: gl.constexpr = a_desc.block_type.shape[1] * PA
    PAIR: gl.constexpr = ACC.two_ctas
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    sa = gl.allocate_shared_memory(sa_desc.dtype, sa_desc.block_type.shape, sa_desc.layout)
    sb = gl.allocate_shared_memory(sb_desc.dtype, sb_desc.block_type.shape, sb_desc.layout)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], ACC)
    COUNT: gl.constexpr = BK // VEC
    sa_at: gl.constexpr = TensorMemoryScalesLayout(cga_layout=[[1, 0]] if PAIR else [])
    sb_at: gl.constexpr = TensorMemoryScalesLayout(cga_layout=[[0, 0]] if PAIR else [])
    a_scales = allocate_tensor_memory(sa_desc.dtype, [BM, COUNT], sa_at)
    b_scales = allocate_tensor_memory(sb_desc.dtype, [BN, COUNT], sb_at)
    loaded = mbarrier.allocate_mbarrier(two_ctas=PAIR)
    multiplied = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(multiplied, count=1)
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    step = 0
    for k in range(0, K, BK):
        mbarrier.expect(
            loaded, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta + sa_desc.nbytes_per_cta + sb_desc.nbytes_per_cta
        )
        tma.async_load(a_desc, [row, k // PA], loaded, a)
        tma.async_load(b_desc, [column, k // PB], loaded, b)
        tma.async_load(sa_desc, [0, row // 128, k // VEC // 4, 0, 0], loaded, sa, multicast=PAIR)
        tma.async_load(sb_desc, [0, column // 128, k // VEC // 4, 0, 0], loaded, sb, multicast=PAIR)
        mbarrier.wait(loaded, step & 1)
        tcgen05_copy(scales(sa, BM, COUNT), a_scales)
        tcgen05_copy(scales(sb, BN, COUNT), b_scales)
        tcgen05_mma_scaled(a, b.permute((1, 0)), acc, a_scales, b_scales, A, B, use_acc=k > 0)
        tcgen05_commit(multiplied)
        mbarrier.wait(multiplied, step & 1)
        step += 1
    mbarrier.invalidate(loaded)
    mbarrier.invalidate(multiplied)
    store(c_desc, row, column, acc.load())


@gluon.jit
def taken(out):
    """Which cluster computes each place."""
    everywhere: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[[0]] if gl.num_ctas() > 1 else [])
    answer = gl.allocate_shared_memory(gl.int64, [2], everywhere)
    answered = mbarrier.allocate_mbarrier()
    mbarrier.init(answered, count=1)
    mine = gl.program_id(0)
    tile = mine
    more = gl.to_tensor(True)
    phase = 0
    while more:
        mbarrier.expect(answered, 16, from_cta=0)
        clc.try_cancel(answer, answered)
        gl.store(out + tile, mine)
        mbarrier.wait(answered, phase)
        said = clc.load_result(answer)
        more = said.is_canceled()
        if more:
            tile = said.program_id(0)
        phase ^= 1
        gl.barrier(cluster=gl.num_ctas() > 1)
