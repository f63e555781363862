"""Attention forward at any sequence length: the computation of `attention.py`, rows and keys that do not exist left out.

Q, K, V, O are [batch * heads, N_CTX, HEAD_DIM] bf16, tiles moved by tensor descriptors made on the host with blocks
[1, BLOCK_M, HEAD_DIM] (Q, O) and [1, BLOCK_N, HEAD_DIM] (K, V), which read zeros behind a head's last row and write
nothing there. The log-sum-exp of each row, in base 2, goes to LSE, a float32 vector [batch * heads * N_CTX]. With EVEN_N,
N_CTX is a multiple of BLOCK_N; otherwise the last block of keys is masked in a loop of its own.
"""

import triton
import triton.language as tl


@triton.jit
def attend(
    acc, l_i, m_i, q, k_desc, v_desc, head, lo, hi, qk_scale, offs_m, N_CTX,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, ENDS: tl.constexpr,
):  # fmt: skip
    """The keys [lo, hi) of one head: new accumulator, row sums and row maxima."""
    offs_n = tl.arange(0, BLOCK_N)
    for start_n in range(lo, hi, BLOCK_N):
        k = k_desc.load([head, start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
        qk = tl.dot(q, k.T)
        if CAUSAL or ENDS:
            if CAUSAL:  # noqa: SIM108
                visible = offs_m[:, None] >= start_n + offs_n[None, :]
            else:
                visible = (start_n + offs_n < N_CTX)[None, :]
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
def attention_any_length(
    q_desc, k_desc, v_desc, o_desc, LSE, sm_scale, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    qk_scale = sm_scale * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([head, start_m, 0]).reshape([BLOCK_M, HEAD_DIM])
    if CAUSAL:  # keys behind the last row are behind the diagonal, too
        whole = start_m // BLOCK_N * BLOCK_N
        end = tl.minimum(start_m + BLOCK_M, N_CTX)
    elif EVEN_N:
        whole = N_CTX
        end = N_CTX
    else:
        whole = N_CTX // BLOCK_N * BLOCK_N
        end = N_CTX
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, head, 0, whole, qk_scale, offs_m, N_CTX, BLOCK_N, HEAD_DIM, False, False
    )
    if CAUSAL or not EVEN_N:
        acc, l_i, m_i = attend(
            acc, l_i, m_i, q, k_desc, v_desc, head, whole, end, qk_scale, offs_m, N_CTX,
            BLOCK_N, HEAD_DIM, CAUSAL, True,
        )  # fmt: skip

    lse = m_i + tl.math.log2(l_i)
    o = acc / l_i[:, None]
    tl.store(LSE + head * N_CTX + offs_m, lse, mask=offs_m < N_CTX)
    o_desc.store([head, start_m, 0], o.to(tl.bfloat16).reshape([1, BLOCK_M, HEAD_DIM]))
