"""Causal attention forward at any sequence length, blocks of keys last to first: those on the diagonal come first.

Q, K, V, O are [batch * heads, N_CTX, HEAD_DIM] bf16, tiles moved by tensor descriptors made on the host with blocks
[1, BLOCK_M, HEAD_DIM] (Q, O) and [1, BLOCK_N, HEAD_DIM] (K, V), which read zeros behind a head's last row and write
nothing there. The log-sum-exp of each row, in base 2, goes to LSE, a float32 vector [batch * heads * N_CTX]. MASKED is
how many blocks of keys the diagonal of a block of queries meets at most: BLOCK_M / BLOCK_N if that is whole. The first
ones may be masked for all keys of a row: what they leave is multiplied by 0 later. CAUSAL says what is computed: it is true.
"""

import triton
import triton.language as tl


@triton.jit
def attend(
    acc, l_i, m_i, q, k_desc, v_desc, head, first, end, blocks, qk_scale, offs_m,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, DIAGONAL: tl.constexpr,
):  # fmt: skip
    """The blocks of keys [first, end) of one head, from the last of `blocks` down: new accumulator, row sums, maxima."""
    offs_n = tl.arange(0, BLOCK_N)
    for block in range(first, end):
        start_n = (blocks - 1 - block) * BLOCK_N
        k = k_desc.load([head, start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
        qk = tl.dot(q, k.T)
        if DIAGONAL:
            visible = offs_m[:, None] >= start_n + offs_n[None, :]
            qk = tl.where(visible, qk * qk_scale, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            p = tl.math.exp2(qk - m_ij[:, None])
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            p = tl.math.exp2(qk * qk_scale - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([head, start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        m_i = m_ij
    return acc, l_i, m_i


@triton.jit
def attention_descending(
    q_desc, k_desc, v_desc, o_desc, LSE, sm_scale, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    qk_scale = sm_scale * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([head, start_m, 0]).reshape([BLOCK_M, HEAD_DIM])
    blocks = start_m // BLOCK_N + MASKED
    masked = tl.minimum(blocks, MASKED)
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, head, 0, masked, blocks, qk_scale, offs_m, BLOCK_N, HEAD_DIM, True
    )
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, head, masked, blocks, blocks, qk_scale, offs_m, BLOCK_N, HEAD_DIM, False
    )

    lse = m_i + tl.math.log2(l_i)
    o = acc / l_i[:, None]
    tl.store(LSE + head * N_CTX + offs_m, lse, mask=offs_m < N_CTX)
    o_desc.store([head, start_m, 0], o.to(tl.bfloat16).reshape([1, BLOCK_M, HEAD_DIM]))
