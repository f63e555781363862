"""Kernels with a block of their loop outside of it, for tests of the lowering: loops of one constant iteration."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def step(acc, l_i, m_i, q, k, v, sm_scale):
    """One block of keys."""
    qk = tl.dot(q, k.T)
    m_new = tl.maximum(m_i, tl.max(qk, 1) * sm_scale)
    p = tl.math.exp2(qk * sm_scale - m_new[:, None])
    alpha = tl.math.exp2(m_i - m_new)
    acc = tl.dot(p.to(tl.bfloat16), v, acc * alpha[:, None])
    return acc, l_i * alpha + tl.sum(p, 1), m_new


@triton.jit
def attention(
    q_desc, k_desc, v_desc, o_desc, sm_scale, N_CTX,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """FIRST, LAST: blocks of keys in loops of their own, before and after the others."""
    row = tl.program_id(0) * BLOCK_M
    q = q_desc.load([row, 0])
    m_i = tl.full([BLOCK_M], -1.0e30, tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for j in range(0, FIRST):
        acc, l_i, m_i = step(acc, l_i, m_i, q, k_desc.load([j * BLOCK_N, 0]), v_desc.load([j * BLOCK_N, 0]), sm_scale)
    for n in range(BLOCK_N * FIRST, N_CTX, BLOCK_N):
        acc, l_i, m_i = step(acc, l_i, m_i, q, k_desc.load([n, 0]), v_desc.load([n, 0]), sm_scale)
    for j in range(0, LAST):
        n = N_CTX + j * BLOCK_N
        acc, l_i, m_i = step(acc, l_i, m_i, q, k_desc.load([n, 0]), v_desc.load([n, 0]), sm_scale)
    o_desc.store([row, 0], (acc / l_i[:, None]).to(tl.bfloat16))


@triton.jit
def product(a_desc, b_desc, c_desc, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FIRST: tl.constexpr):
    """A product whose first FIRST steps are made in a loop of their own."""
    row = tl.program_id(0) * BLOCK_M
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, FIRST):
        acc = tl.dot(a_desc.load([row, k * 64]), b_desc.load([k * 64, 0]), acc)
    for k in range(FIRST, tl.cdiv(K, 64)):
        acc = tl.dot(a_desc.load([row, k * 64]), b_desc.load([k * 64, 0]), acc)
    c_desc.store([row, 0], acc.to(tl.bfloat16))
