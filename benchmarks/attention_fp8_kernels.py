"""Attention forward in fp8 (e4m3), in plain Triton: what `benchmarks/attention_fp8.py` times.

Q and K are [heads of the batch * N_CTX, HEAD_DIM] e4m3, O the same in bf16. V is stored transposed,
[heads of the batch * HEAD_DIM, N_CTX] e4m3: the tensor cores of Hopper read 8-bit operands along K only, and K of the
second product is the keys. Every head has a scale of float32 for each of Q, K and V, as FlashAttention 3 takes them
(descale_q, descale_k, descale_v): what a tensor stands for is its elements times the scale. P, at most 2^SHIFT, is
rounded to e4m3 in front of the second product; sums and accumulators are float32. The log-sum-exp of each row, in base
2, goes to LSE, float32 [heads of the batch * N_CTX]. N_CTX is a multiple of BLOCK_M and BLOCK_N.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

SHIFT = tl.constexpr(8.0)  # P is at most 2^8 of the 448 of e4m3: what is 2^-14 of a row's largest is normal still


@triton.jit
def attend(
    acc, l_i, m_i, q, k_desc, v_desc, head, lo, hi, qk_scale, offs_m, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """The keys [lo, hi) of one head: new accumulator, row sums and row maxima."""
    offs_n = tl.arange(0, BLOCK_N)
    for start_n in range(lo, hi, BLOCK_N):
        k = k_desc.load([head * N_CTX + start_n, 0])
        qk = tl.dot(q, k.T)
        if MASKED:
            visible = offs_m[:, None] >= start_n + offs_n[None, :]
            qk = tl.where(visible, qk * qk_scale, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            p = tl.math.exp2(qk - (m_ij - SHIFT)[:, None])
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            p = tl.math.exp2(qk * qk_scale - (m_ij - SHIFT)[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = v_desc.load([head * HEAD_DIM, start_n])
        acc = tl.dot(p.to(tl.float8e4nv), v.T, acc)
        m_i = m_ij
    return acc, l_i, m_i


@triton.jit
def forward(
    q_desc, k_desc, v_desc, o_desc, Q_SCALE, K_SCALE, V_SCALE, LSE, sm_scale, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """A block of queries of one head."""
    head = tl.program_id(1)
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    qk_scale = sm_scale * tl.load(Q_SCALE + head) * tl.load(K_SCALE + head) * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([head * N_CTX + start_m, 0])
    whole = start_m if CAUSAL else N_CTX
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, head, 0, whole, qk_scale, offs_m, N_CTX, HEAD_DIM, BLOCK_N, False
    )
    if CAUSAL:
        acc, l_i, m_i = attend(
            acc, l_i, m_i, q, k_desc, v_desc, head, start_m, start_m + BLOCK_M, qk_scale, offs_m, N_CTX,
            HEAD_DIM, BLOCK_N, True,
        )  # fmt: skip

    lse = m_i - SHIFT + tl.math.log2(l_i)
    o = acc * (tl.load(V_SCALE + head) / l_i)[:, None]
    tl.store(LSE + head * N_CTX + offs_m, lse)
    o_desc.store([head * N_CTX + start_m, 0], o.to(tl.bfloat16))
