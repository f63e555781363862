"""A Gluon kernel for sm_100a that Twill never emitted: its own PTX is run by the executor of PTX."""

# ruff: noqa: SIM113
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@gluon.jit
def load(a_desc, b_desc, c_desc, a_bufs, b_bufs, acc, empty, full, acc_empty, acc_full, tiles_m, tiles):
    STAGES: gl.constexpr = a_bufs.type.shape[0]
    it = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        off_m = (tile % tiles_m) * a_desc.block_type.shape[0]
        off_n = (tile // tiles_m) * b_desc.block_type.shape[1]
        for k in range(0, a_desc.shape[1], a_desc.block_type.shape[1]):
            slot = it % STAGES
            mbarrier.wait(empty.index(slot), ((it // STAGES) & 1) ^ 1)
            bar = full.index(slot)
            mbarrier.expect(bar, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
            tma.async_load(a_desc, [off_m, k], bar, a_bufs.index(slot))
            tma.async_load(b_desc, [k, off_n], bar, b_bufs.index(slot))
            it += 1


@gluon.jit
def multiply(a_desc, b_desc, c_desc, a_bufs, b_bufs, acc, empty, full, acc_empty, acc_full, tiles_m, tiles):
    STAGES: gl.constexpr = a_bufs.type.shape[0]
    it = 0
    n = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        mbarrier.wait(acc_empty.index(n % 2), ((n // 2) & 1) ^ 1)
        d = acc.index(n % 2)
        use_acc = False
        for _ in range(0, a_desc.shape[1], a_desc.block_type.shape[1]):
            slot = it % STAGES
            mbarrier.wait(full.index(slot), (it // STAGES) & 1)
            tcgen05_mma(a_bufs.index(slot), b_bufs.index(slot), d, use_acc=use_acc, mbarriers=[empty.index(slot)])
            use_acc = True
            it += 1
        tcgen05_commit(acc_full.index(n % 2))
        n += 1


@gluon.jit
def epilogue(a_desc, b_desc, c_desc, a_bufs, b_bufs, acc, empty, full, acc_empty, acc_full, tiles_m, tiles):
    BN: gl.constexpr = b_desc.block_type.shape[1]
    W: gl.constexpr = c_desc.block_type.shape[1]
    c = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    n = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        off_m = (tile % tiles_m) * a_desc.block_type.shape[0]
        off_n = (tile // tiles_m) * BN
        mbarrier.wait(acc_full.index(n % 2), (n // 2) & 1)
        d = acc.index(n % 2)
        for j in gl.static_range(BN // W):
            part = d.slice(j * W, W).load()
            tma.store_wait(0)
            c.store(part.to(c_desc.dtype))
            fence_async_shared()
            tma.async_store(c_desc, [off_m, off_n + j * W], c)
        mbarrier.arrive(acc_empty.index(n % 2), count=1)
        n += 1
    tma.store_wait(0)


@gluon.jit
def gemm(a_desc, b_desc, c_desc, tiles_m, tiles, STAGES: gl.constexpr, PAIR: gl.constexpr):
    BM: gl.constexpr = a_desc.block_type.shape[0]
    BN: gl.constexpr = b_desc.block_type.shape[1]
    CTAS: gl.constexpr = gl.num_ctas()
    a_bufs = gl.allocate_shared_memory(a_desc.dtype, [STAGES] + a_desc.block_type.shape, a_desc.layout)
    b_bufs = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)
    layout: gl.constexpr = TensorMemoryLayout(
        block=(BM // CTAS, BN), col_stride=1, cga_layout=[[1, 0]] if PAIR else [], two_ctas=PAIR
    )
    acc = allocate_tensor_memory(gl.float32, [2, BM, BN], layout)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    full = mbarrier.allocate_mbarrier(batch=STAGES, two_ctas=PAIR)
    acc_empty = mbarrier.allocate_mbarrier(batch=2, two_ctas=PAIR)
    acc_full = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(STAGES):
        mbarrier.init(empty.index(i), count=1)
        mbarrier.init(full.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(acc_empty.index(i), count=1)
        mbarrier.init(acc_full.index(i), count=1)
    p = (a_desc, b_desc, c_desc, a_bufs, b_bufs, acc, empty, full, acc_empty, acc_full, tiles_m, tiles)
    gl.warp_specialize([(epilogue, p), (load, p), (multiply, p)], [1, 1], [24, 24])


@gluon.jit
def through(x, y, STORED: gl.constexpr, LOADED: gl.constexpr, M: gl.constexpr, N: gl.constexpr):
    """A matrix through tensor memory, in by one shape of moves and out by another."""
    at: gl.constexpr = TensorMemoryLayout([M, N], col_stride=1)
    memory = allocate_tensor_memory(gl.float32, [M, N], at)
    there: gl.constexpr = memory.get_reg_layout(instr_variant=STORED)
    back: gl.constexpr = memory.get_reg_layout(instr_variant=LOADED)
    row = gl.arange(0, M, gl.SliceLayout(1, there))
    column = gl.arange(0, N, gl.SliceLayout(0, there))
    memory.store(gl.load(x + row[:, None] * N + column[None, :]))
    values = memory.load(back)
    row = gl.arange(0, M, gl.SliceLayout(1, back))
    column = gl.arange(0, N, gl.SliceLayout(0, back))
    gl.store(y + row[:, None] * N + column[None, :], values)
