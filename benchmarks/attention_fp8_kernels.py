"""Attention forward in fp8 (e4m3), in plain Triton: what `benchmarks.attention_fp8` times.

Q and K have descriptors of [heads, rows, HEAD_DIM] in e4m3 with blocks [1, BLOCK, HEAD_DIM], O has one in bf16. V is
stored transposed, [heads, HEAD_DIM, rows] with blocks [1, HEAD_DIM, BLOCK_N]: the tensor cores of Hopper read 8-bit
operands along K only, and K of the second product is the keys. Descriptors read zeros behind the last row and write
nothing there. Each head has a scale of float32 for each of Q, K and V, as FlashAttention 3 has (descale_q, descale_k,
descale_v): a tensor stands for its elements times the scale. P, at most 2^SHIFT, is rounded to e4m3 in front of the
second product; sums and accumulators are float32. The log-sum-exp of each row, in base 2, goes to LSE, float32
[heads, rows].

With QUADS each 16 rows of V are stored in the order 0 1 8 9 2 3 10 11 4 5 12 13 6 7 14 15, in which a thread of
Hopper's tensor core finds what it computed of P: then none of P moves from thread to thread. (FlashAttention 3
transposes V, and puts its rows into such an order, itself.)
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

SHIFT = tl.constexpr(8.0)  # 2^8 of the 448 of e4m3: what is 2^-14 of a row's largest is a normal number still


@triton.jit
def visit(
    acc, l_i, m_i, q, k_desc, v_desc, head, start_n, qk_scale, offs_m, LENGTH,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, ENDS: tl.constexpr,
    QUADS: tl.constexpr,
):  # fmt: skip
    """The keys from `start_n` on: accumulator, row sums and maxima."""
    k = k_desc.load([head, start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
    qk = tl.dot(q, k.T)
    if ENDS:
        keys = start_n + tl.arange(0, BLOCK_N)
        visible = offs_m[:, None] >= keys[None, :] if CAUSAL else (keys < LENGTH)[None, :]
        qk = tl.where(visible, qk * qk_scale, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - (m_ij - SHIFT)[:, None])
    else:
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        p = tl.math.exp2(qk * qk_scale - (m_ij - SHIFT)[:, None])
    alpha = tl.math.exp2(m_i - m_ij)
    l_i = l_i * alpha + tl.sum(p, 1)
    kept = acc * alpha[:, None]
    v = v_desc.load([head, 0, start_n]).reshape([HEAD_DIM, BLOCK_N])
    rounded = p.to(tl.float8e4nv)
    if QUADS:
        ROWS: tl.constexpr = rounded.shape[0]
        rounded = rounded.reshape([ROWS, BLOCK_N // 16, 2, 4, 2]).permute(0, 1, 3, 2, 4).reshape([ROWS, BLOCK_N])
    acc = tl.dot(rounded, v.T, kept)
    return acc, l_i, m_ij


@triton.jit
def attend(
    acc, l_i, m_i, q, k_desc, v_desc, head, lo, hi, qk_scale, offs_m, LENGTH,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, ENDS: tl.constexpr,
    QUADS: tl.constexpr,
):  # fmt: skip
    """The keys [lo, hi)."""
    for start_n in range(lo, hi, BLOCK_N):
        acc, l_i, m_i = visit(
            acc, l_i, m_i, q, k_desc, v_desc, head, start_n, qk_scale, offs_m, LENGTH,
            BLOCK_N, HEAD_DIM, CAUSAL, ENDS, QUADS,
        )  # fmt: skip
    return acc, l_i, m_i


@triton.jit
def descend(
    acc, l_i, m_i, q, k_desc, v_desc, head, first, end, blocks, qk_scale, offs_m, LENGTH,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, ENDS: tl.constexpr, QUADS: tl.constexpr,
):  # fmt: skip
    """The blocks of keys [first, end), from the last of `blocks` down."""
    for block in range(first, end):
        start_n = (blocks - 1 - block) * BLOCK_N
        acc, l_i, m_i = visit(
            acc, l_i, m_i, q, k_desc, v_desc, head, start_n, qk_scale, offs_m, LENGTH,
            BLOCK_N, HEAD_DIM, True, ENDS, QUADS,
        )  # fmt: skip
    return acc, l_i, m_i


@triton.jit
def finish(
    acc, l_i, m_i, o_desc, V_SCALE, LSE, head, start_m, offs_m, LENGTH,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr,
):  # fmt: skip
    """Stores a block of rows."""
    lse = m_i - SHIFT + tl.math.log2(l_i)
    o = acc * (tl.load(V_SCALE + head) / l_i)[:, None]
    tl.store(LSE + head * LENGTH + offs_m, lse, mask=offs_m < LENGTH)
    o_desc.store([head, start_m, 0], o.to(tl.bfloat16).reshape([1, BLOCK_M, HEAD_DIM]))


@triton.jit
def forward(
    q_desc, k_desc, v_desc, o_desc, Q_SCALE, K_SCALE, V_SCALE, LSE, sm_scale, LENGTH,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
    QUADS: tl.constexpr,
):  # fmt: skip
    """A block of queries of one head. EVEN_N: LENGTH is a multiple of BLOCK_N."""
    head = tl.program_id(1)
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    qk_scale = sm_scale * tl.load(Q_SCALE + head) * tl.load(K_SCALE + head) * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([head, start_m, 0]).reshape([BLOCK_M, HEAD_DIM])
    if CAUSAL:  # keys behind the last row are behind the diagonal, too
        whole = start_m // BLOCK_N * BLOCK_N
        end = tl.minimum(start_m + BLOCK_M, LENGTH)
    elif EVEN_N:
        whole = LENGTH
        end = LENGTH
    else:
        whole = LENGTH // BLOCK_N * BLOCK_N
        end = LENGTH
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, head, 0, whole, qk_scale, offs_m, LENGTH,
        BLOCK_N, HEAD_DIM, CAUSAL, False, QUADS,
    )  # fmt: skip
    if CAUSAL or not EVEN_N:
        acc, l_i, m_i = attend(
            acc, l_i, m_i, q, k_desc, v_desc, head, whole, end, qk_scale, offs_m, LENGTH,
            BLOCK_N, HEAD_DIM, CAUSAL, True, QUADS,
        )  # fmt: skip
    finish(acc, l_i, m_i, o_desc, V_SCALE, LSE, head, start_m, offs_m, LENGTH, BLOCK_M, HEAD_DIM)


@triton.jit
def descending(
    q_desc, k_desc, v_desc, o_desc, Q_SCALE, K_SCALE, V_SCALE, LSE, sm_scale, LENGTH, MASKED,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, QUADS: tl.constexpr,
):  # fmt: skip
    """Causal, blocks of keys last to first: those on the diagonal, MASKED at most, come first.

    They may be masked for all keys of a row: what they leave is multiplied by 0 later.
    """
    head = tl.program_id(1)
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    qk_scale = sm_scale * tl.load(Q_SCALE + head) * tl.load(K_SCALE + head) * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([head, start_m, 0]).reshape([BLOCK_M, HEAD_DIM])
    blocks = tl.cdiv(tl.minimum(start_m + BLOCK_M, LENGTH), BLOCK_N)
    masked = tl.minimum(blocks, MASKED)
    acc, l_i, m_i = descend(
        acc, l_i, m_i, q, k_desc, v_desc, head, 0, masked, blocks, qk_scale, offs_m, LENGTH,
        BLOCK_N, HEAD_DIM, True, QUADS,
    )  # fmt: skip
    acc, l_i, m_i = descend(
        acc, l_i, m_i, q, k_desc, v_desc, head, masked, blocks, blocks, qk_scale, offs_m, LENGTH,
        BLOCK_N, HEAD_DIM, False, QUADS,
    )  # fmt: skip
    finish(acc, l_i, m_i, o_desc, V_SCALE, LSE, head, start_m, offs_m, LENGTH, BLOCK_M, HEAD_DIM)
