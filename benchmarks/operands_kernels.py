"""Products whose operands are converted, transposed or scaled in blocks, for `benchmarks.operands`."""

import triton
import triton.language as tl


@triton.jit
def w8a16(a_desc, b_desc, c_desc, scale_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A B s: activations bf16 [M, K], weights int8 [K, N] with a scale for each column."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = b_desc.load([k, pn * BN])
        acc = tl.dot(a, b.to(tl.bfloat16), acc)
    s = tl.load(scale_ptr + pn * BN + tl.arange(0, BN))
    c_desc.store([pm * BM, pn * BN], (acc * s[None, :]).to(tl.bfloat16))


@triton.jit
def w8a16_t(a_desc, b_desc, c_desc, scale_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same with weights [N, K] as the left operand, which the tensor core takes from registers."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = b_desc.load([pn * BN, k])
        acc = tl.dot(b.to(tl.bfloat16), a.T, acc)
    s = tl.load(scale_ptr + pn * BN + tl.arange(0, BN))
    c_desc.store([pm * BM, pn * BN], (acc * s[:, None]).to(tl.bfloat16).T)


@triton.jit
def w4a16(a_desc, b_desc, c_desc, scale_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same with weights of 4 bits, two rows of K in a byte: int8 [K / 2, N], the even row in the low half."""
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = a_desc.load([pm * BM, k])
        b = b_desc.load([k // 2, pn * BN])
        pairs = tl.join((b << 4) >> 4, b >> 4).permute(0, 2, 1).reshape(BK, BN)
        acc = tl.dot(a, pairs.to(tl.bfloat16), acc)
    s = tl.load(scale_ptr + pn * BN + tl.arange(0, BN))
    c_desc.store([pm * BM, pn * BN], (acc * s[None, :]).to(tl.bfloat16))


@triton.jit
def ktv(k_desc, v_desc, o_desc, T, BK: tl.constexpr, BV: tl.constexpr, BT: tl.constexpr):
    """K^T V of [T, K] and [T, V]: the left operand is transposed."""
    pk = tl.program_id(0)
    pv = tl.program_id(1)
    acc = tl.zeros((BK, BV), dtype=tl.float32)
    for t in range(0, T, BT):
        k = k_desc.load([t, pk * BK])
        v = v_desc.load([t, pv * BV])
        acc = tl.dot(k.T, v, acc)
    o_desc.store([pk * BK, pv * BV], acc)


@triton.jit
def block_scaled(
    a_ptr, b_ptr, as_ptr, bs_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """A B^T of fp8 with a scale for each row of A and each 128 rows of B, per BK = 128 of K; strides are M, N and K."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    steps = tl.cdiv(K, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(steps):
        a = tl.load(a_ptr + m[:, None] * K + (step * BK + k)[None, :], mask=(m < M)[:, None], other=0.0)
        b = tl.load(b_ptr + n[None, :] * K + (step * BK + k)[:, None], mask=(n < N)[None, :], other=0.0)
        rows = tl.load(as_ptr + m * steps + step, mask=m < M, other=0.0)
        columns = tl.load(bs_ptr + n // 128 * steps + step, mask=n < N, other=0.0)
        acc += tl.dot(a, b) * rows[:, None] * columns[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(tl.bfloat16), mask=(m < M)[:, None] & (n < N)[None, :])
