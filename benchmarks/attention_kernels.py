"""Attention forward in plain Triton: what `benchmarks/attention_sweep.py` times.

Q, K, V, O are bf16. Keys and values have their own heads: GROUP heads of queries share one of keys. The last query sees
the last key where attention is causal. `forward` has descriptors of [heads, rows, HEAD_DIM] with blocks
[1, BLOCK, HEAD_DIM], which read zeros behind the last row and write nothing there. Sequences of `variable` lie one
behind the other, [rows of all, heads, HEAD_DIM] in memory; CU_Q and CU_K say where each begins, and Out has `stride`
elements from row to row. The log-sum-exp of each row, in base 2, goes to LSE, float32 [heads, rows].
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def visit(
    acc, l_i, m_i, q, k_desc, v_desc, head, base, start_n, qk_scale, last, KEYS,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, ENDS: tl.constexpr,
):  # fmt: skip
    """The keys from `start_n` on: accumulator, row sums and maxima. base: of all rows; last: key of each query."""
    k = k_desc.load([head, base + start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
    qk = tl.dot(q, k.T)
    if ENDS:
        keys = start_n + tl.arange(0, BLOCK_N)
        visible = last[:, None] >= keys[None, :] if CAUSAL else (keys < KEYS)[None, :]
        qk = tl.where(visible, qk * qk_scale, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
    else:
        m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
        p = tl.math.exp2(qk * qk_scale - m_ij[:, None])
    alpha = tl.math.exp2(m_i - m_ij)
    l_i = l_i * alpha + tl.sum(p, 1)
    acc = acc * alpha[:, None]
    v = v_desc.load([head, base + start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
    acc = tl.dot(p.to(tl.bfloat16), v, acc)
    return acc, l_i, m_ij


@triton.jit
def attend(
    acc, l_i, m_i, q, k_desc, v_desc, head, base, lo, hi, qk_scale, last, KEYS,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr, ENDS: tl.constexpr,
):  # fmt: skip
    """The keys [lo, hi)."""
    for start_n in range(lo, hi, BLOCK_N):
        acc, l_i, m_i = visit(
            acc, l_i, m_i, q, k_desc, v_desc, head, base, start_n, qk_scale, last, KEYS, BLOCK_N, HEAD_DIM, CAUSAL, ENDS
        )
    return acc, l_i, m_i


@triton.jit
def descend(
    acc, l_i, m_i, q, k_desc, v_desc, head, first, end, blocks, qk_scale, last, KEYS,
    BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, ENDS: tl.constexpr,
):  # fmt: skip
    """The blocks of keys [first, end), from the last of `blocks` down."""
    for block in range(first, end):
        start_n = (blocks - 1 - block) * BLOCK_N
        acc, l_i, m_i = visit(
            acc, l_i, m_i, q, k_desc, v_desc, head, 0, start_n, qk_scale, last, KEYS, BLOCK_N, HEAD_DIM, True, ENDS
        )
    return acc, l_i, m_i


@triton.jit
def forward(
    q_desc, k_desc, v_desc, o_desc, LSE, sm_scale, QUERIES, KEYS, GROUP,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN_N: tl.constexpr,
):  # fmt: skip
    """A block of queries of one head. EVEN_N: KEYS is a multiple of BLOCK_N."""
    head = tl.program_id(1)
    kv = head // GROUP
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    behind = KEYS - QUERIES
    qk_scale = sm_scale * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([head, start_m, 0]).reshape([BLOCK_M, HEAD_DIM])
    if CAUSAL:  # keys behind the last row are behind the diagonal, too
        whole = (start_m + behind) // BLOCK_N * BLOCK_N
        end = tl.minimum(start_m + BLOCK_M + behind, KEYS)
    elif EVEN_N:
        whole = KEYS
        end = KEYS
    else:
        whole = KEYS // BLOCK_N * BLOCK_N
        end = KEYS
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, kv, 0, 0, whole, qk_scale, offs_m + behind, KEYS,
        BLOCK_N, HEAD_DIM, CAUSAL, False,
    )  # fmt: skip
    if CAUSAL or not EVEN_N:
        acc, l_i, m_i = attend(
            acc, l_i, m_i, q, k_desc, v_desc, kv, 0, whole, end, qk_scale, offs_m + behind, KEYS,
            BLOCK_N, HEAD_DIM, CAUSAL, True,
        )  # fmt: skip

    lse = m_i + tl.math.log2(l_i)
    o = acc / l_i[:, None]
    tl.store(LSE + head * QUERIES + offs_m, lse, mask=offs_m < QUERIES)
    o_desc.store([head, start_m, 0], o.to(tl.bfloat16).reshape([1, BLOCK_M, HEAD_DIM]))


@triton.jit
def descending(
    q_desc, k_desc, v_desc, o_desc, LSE, sm_scale, QUERIES, KEYS, GROUP, MASKED,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal, blocks of keys last to first: those on the diagonal, MASKED at most, come first.

    They may be masked for all keys of a row: what they leave is multiplied by 0 later.
    """
    head = tl.program_id(1)
    kv = head // GROUP
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    behind = KEYS - QUERIES
    qk_scale = sm_scale * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([head, start_m, 0]).reshape([BLOCK_M, HEAD_DIM])
    blocks = tl.cdiv(tl.minimum(start_m + BLOCK_M + behind, KEYS), BLOCK_N)
    masked = tl.minimum(blocks, MASKED)
    acc, l_i, m_i = descend(
        acc, l_i, m_i, q, k_desc, v_desc, kv, 0, masked, blocks, qk_scale, offs_m + behind, KEYS,
        BLOCK_N, HEAD_DIM, True,
    )  # fmt: skip
    acc, l_i, m_i = descend(
        acc, l_i, m_i, q, k_desc, v_desc, kv, masked, blocks, blocks, qk_scale, offs_m + behind, KEYS,
        BLOCK_N, HEAD_DIM, False,
    )  # fmt: skip

    lse = m_i + tl.math.log2(l_i)
    o = acc / l_i[:, None]
    tl.store(LSE + head * QUERIES + offs_m, lse, mask=offs_m < QUERIES)
    o_desc.store([head, start_m, 0], o.to(tl.bfloat16).reshape([1, BLOCK_M, HEAD_DIM]))


@triton.jit
def variable(
    q_desc, k_desc, v_desc, Out, LSE, CU_Q, CU_K, sm_scale, TOTAL, GROUP, stride,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """A block of queries of one head of one sequence. TOTAL: queries of all of them."""
    sequence, head = tl.program_id(2), tl.program_id(1)
    kv = head // GROUP
    start_m = tl.program_id(0) * BLOCK_M
    first_q = tl.load(CU_Q + sequence)
    first_k = tl.load(CU_K + sequence)
    queries = tl.load(CU_Q + sequence + 1) - first_q
    keys = tl.load(CU_K + sequence + 1) - first_k
    if start_m >= queries:
        return
    offs_m = start_m + tl.arange(0, BLOCK_M)
    behind = keys - queries
    qk_scale = sm_scale * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([head, first_q + start_m, 0]).reshape([BLOCK_M, HEAD_DIM])
    if CAUSAL:
        whole = (start_m + behind) // BLOCK_N * BLOCK_N
        end = tl.minimum(start_m + BLOCK_M + behind, keys)
    else:
        whole = keys // BLOCK_N * BLOCK_N
        end = keys
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, kv, first_k, 0, whole, qk_scale, offs_m + behind, keys,
        BLOCK_N, HEAD_DIM, CAUSAL, False,
    )  # fmt: skip
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, kv, first_k, whole, end, qk_scale, offs_m + behind, keys,
        BLOCK_N, HEAD_DIM, CAUSAL, True,
    )  # fmt: skip

    lse = m_i + tl.math.log2(l_i)
    o = (acc / l_i[:, None]).to(tl.bfloat16)
    rows, columns = first_q + offs_m, head * HEAD_DIM + tl.arange(0, HEAD_DIM)
    here = offs_m < queries
    tl.store(LSE + head * TOTAL + rows, lse, mask=here)
    tl.store(Out + rows[:, None] * stride + columns[None, :], o, mask=here[:, None])


@triton.jit
def decode(
    q_desc, k_desc, v_desc, Out, PART, LSE, sm_scale, KEYS, CHUNK, GROUP,
    ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """One query of the GROUP heads of one head of keys beside CHUNK keys, in a tile of ROWS rows.

    Q, Out: [heads of keys, GROUP, HEAD_DIM]. With SPLIT, sums over the chunk go to PART, float32
    [heads of keys, chunks, GROUP, HEAD_DIM], and the log-sum-exp to LSE, [heads of keys, chunks, GROUP].
    """
    chunk, kv = tl.program_id(0), tl.program_id(1)
    g, d, n = tl.arange(0, ROWS), tl.arange(0, HEAD_DIM), tl.arange(0, BLOCK_N)
    qk_scale = sm_scale * 1.4426950408889634  # log2(e)
    m_i = tl.full([ROWS], -float("inf"), tl.float32)
    l_i = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, HEAD_DIM], tl.float32)
    q = q_desc.load([kv, 0, 0]).reshape([ROWS, HEAD_DIM])
    for start_n in range(chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, KEYS), BLOCK_N):
        k = k_desc.load([kv, start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
        s = tl.dot(q, k.T) * qk_scale
        s = tl.where((start_n + n < KEYS)[None, :], s, -1.0e6)
        new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        kept = tl.exp2(m_i - new)
        l_i = l_i * kept + tl.sum(p, 1)
        v = v_desc.load([kv, start_n, 0]).reshape([BLOCK_N, HEAD_DIM])
        acc = tl.dot(p.to(tl.bfloat16), v, acc * kept[:, None])
        m_i = new
    o = acc / l_i[:, None]
    here = g < GROUP
    if SPLIT:
        rows = (kv * tl.num_programs(0) + chunk) * GROUP + g
        tl.store(LSE + rows, m_i + tl.math.log2(l_i), mask=here)
        tl.store(PART + rows[:, None] * HEAD_DIM + d[None, :], o, mask=here[:, None])
    else:
        rows = kv * GROUP + g
        tl.store(Out + rows[:, None] * HEAD_DIM + d[None, :], o.to(tl.bfloat16), mask=here[:, None])


@triton.jit
def combine(PART, LSE, Out, chunks, GROUP, HEAD_DIM: tl.constexpr, MOST: tl.constexpr):
    """The result of one head: what `decode` left of up to MOST chunks, weighted."""
    head, kv = tl.program_id(0), tl.program_id(1)
    c, d = tl.arange(0, MOST), tl.arange(0, HEAD_DIM)
    rows = (kv * chunks + c) * GROUP + head
    here = c < chunks
    lse = tl.load(LSE + rows, mask=here, other=-1.0e6)
    weight = tl.exp2(lse - tl.max(lse, 0))
    part = tl.load(PART + rows[:, None] * HEAD_DIM + d[None, :], mask=here[:, None], other=0.0)
    o = tl.sum(part * weight[:, None], 0) / tl.sum(weight, 0)
    tl.store(Out + (kv * GROUP + head) * HEAD_DIM + d, o.to(tl.bfloat16))


@triton.jit
def packed(
    q_desc, k_desc, v_desc, Out, LSE, CU_Q, CU_K, sm_scale, TOTAL,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """`variable`, where the GROUP heads that share keys are rows of one tile.

    Q and Out are [heads of keys, rows of all, GROUP, HEAD_DIM] in memory; Q has a descriptor of [heads of keys, rows of
    all x GROUP, HEAD_DIM].
    """
    sequence, kv = tl.program_id(2), tl.program_id(1)
    start_m = tl.program_id(0) * BLOCK_M
    first_q = tl.load(CU_Q + sequence)
    first_k = tl.load(CU_K + sequence)
    queries = tl.load(CU_Q + sequence + 1) - first_q
    keys = tl.load(CU_K + sequence + 1) - first_k
    if start_m >= queries * GROUP:
        return
    rows = start_m + tl.arange(0, BLOCK_M)
    behind = keys - queries
    qk_scale = sm_scale * 1.4426950408889634  # log2(e)

    m_i = tl.full([BLOCK_M], -float("inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    q = q_desc.load([kv, first_q * GROUP + start_m, 0]).reshape([BLOCK_M, HEAD_DIM])
    if CAUSAL:
        whole = (start_m // GROUP + behind) // BLOCK_N * BLOCK_N
        end = tl.minimum((start_m + BLOCK_M - 1) // GROUP + behind + 1, keys)
    else:
        whole = keys // BLOCK_N * BLOCK_N
        end = keys
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, kv, first_k, 0, whole, qk_scale, rows // GROUP + behind, keys,
        BLOCK_N, HEAD_DIM, CAUSAL, False,
    )  # fmt: skip
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_desc, v_desc, kv, first_k, whole, end, qk_scale, rows // GROUP + behind, keys,
        BLOCK_N, HEAD_DIM, CAUSAL, True,
    )  # fmt: skip

    lse = m_i + tl.math.log2(l_i)
    o = (acc / l_i[:, None]).to(tl.bfloat16)
    places = (kv * TOTAL + first_q) * GROUP + rows
    here = rows < queries * GROUP
    tl.store(LSE + places, lse, mask=here)
    tl.store(Out + places[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :], o, mask=here[:, None])
