"""Attention as a server asks for it: any number of queries and keys, grouped heads, any head dimension, any strides."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def serving(  # type: ignore[no-untyped-def]
    Q, K, V, Out, sm_scale, QUERIES, KEYS, stride_qh, stride_qm, stride_kh, stride_kn, stride_oh, stride_om,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    kv_head = head // GROUP
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_D)
    here = (offs_d < HEAD_DIM)[None, :]
    behind = KEYS - QUERIES  # the last query sees all keys
    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    rows_q = offs_m[:, None] < QUERIES
    q = tl.load(Q + head * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :], mask=rows_q & here, other=0.0)
    last = KEYS
    if CAUSAL:
        last = tl.minimum(KEYS, start_m + BLOCK_M + behind)
    for start_n in range(0, last, BLOCK_N):
        rows = start_n + offs_n
        exists = (rows < KEYS)[:, None] & here
        k = tl.load(K + kv_head * stride_kh + rows[:, None] * stride_kn + offs_d[None, :], mask=exists, other=0.0)
        visible = (rows < KEYS)[None, :]
        if CAUSAL:
            visible = visible & (offs_m[:, None] + behind >= rows[None, :])
        qk = tl.where(visible, tl.dot(q, k.T) * (sm_scale * 1.4426950408889634), -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V + kv_head * stride_kh + rows[:, None] * stride_kn + offs_d[None, :], mask=exists, other=0.0)
        acc = tl.dot(p.to(tl.bfloat16), v, acc)
        m_i = m_ij
    o = (acc / l_i[:, None]).to(tl.bfloat16)
    tl.store(Out + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :], o, mask=rows_q & here)
