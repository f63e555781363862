"""Triton kernels that Twill never emitted: their own PTX is run by the executor of PTX."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + columns[None, :], mask=(k[:, None] < K) & (columns[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], acc.to(tl.bfloat16), mask=mask)


@triton.jit
def onto(a, b, c):
    """C + A B of one tile of 128 x 64 x 64, in integers of 32 bits."""
    m, n, k = tl.arange(0, 128), tl.arange(0, 64), tl.arange(0, 64)
    x, y = tl.load(a + m[:, None] * 64 + k[None, :]), tl.load(b + k[:, None] * 64 + n[None, :])
    at = c + m[:, None] * 64 + n[None, :]
    tl.store(at, tl.dot(x, y, tl.load(at)))


@triton.jit
def gemm_by_descriptors(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    c.store([row, column], acc.to(tl.bfloat16))


@triton.jit
def attention(q, k, v, o, N, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + d[None, :], mask=rows[:, None] < N, other=0.0)
    highest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, N, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        scores = tl.dot(queries, tl.load(k + keys[None, :] * D + d[:, None], mask=keys[None, :] < N, other=0.0)) * scale
        scores = tl.where(keys[None, :] < N, scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights, alpha = tl.exp2(scores - higher[:, None]), tl.exp2(highest - higher)
        values = tl.load(v + keys[:, None] * D + d[None, :], mask=keys[:, None] < N, other=0.0)
        total = total * alpha + tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.bfloat16), values, acc * alpha[:, None])
        highest = higher
    tl.store(o + rows[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.bfloat16), mask=rows[:, None] < N)


@triton.jit
def gemm_by_roles(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    tiles_m = M // BLOCK_M
    for tile in tl.range(
        tl.program_id(0), tiles_m * (N // BLOCK_N), tl.num_programs(0), flatten=True, warp_specialize=True
    ):
        row, column = tile % tiles_m * BLOCK_M, tile // tiles_m * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(a.load([row, k]), b.load([column, k]).T, acc)
        c.store([row, column], acc.to(tl.bfloat16))


@triton.jit
def attention_by_roles(q, k, v, o, N, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    queries = q.load([row, 0])
    highest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32) + 1.0
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for start in tl.range(0, N, BLOCK_N, warp_specialize=True):
        start = tl.multiple_of(start, BLOCK_N)
        keys = k.load([start, 0]).T
        scores = tl.dot(queries, keys)
        higher = tl.maximum(highest, tl.max(scores, 1) * scale)
        scores = scores * scale - higher[:, None]
        weights = tl.math.exp2(scores)
        alpha = tl.math.exp2(highest - higher)
        part = tl.sum(weights, 1)
        acc = acc * alpha[:, None]
        values = v.load([start, 0])
        acc = tl.dot(weights.to(tl.bfloat16), values, acc)
        total = total * alpha + part
        highest = higher
    o.store([row, 0], (acc / total[:, None]).to(tl.bfloat16))


@triton.jit
def softmax(x, y, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * N + columns, mask=columns < N, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * N + columns, weights / tl.sum(weights, 0), mask=columns < N)


@triton.jit
def layer_norm(x, w, b, y, N, eps, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    inside = columns < N
    values = tl.load(x + row * N + columns, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values, 0) / N, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / N + eps)
    weight, bias = tl.load(w + columns, mask=inside), tl.load(b + columns, mask=inside)
    tl.store(y + row * N + columns, (centred * scale * weight + bias).to(tl.bfloat16), mask=inside)


@triton.jit
def totals(x, total, most, counts, N, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < N
    values = tl.load(x + places, mask=inside, other=0.0)
    tl.atomic_add(total, tl.sum(values, 0))
    tl.atomic_max(most, tl.max((values * 1000).to(tl.int32), 0))
    tl.atomic_add(counts + (places & 7), 1, mask=inside)


@triton.jit
def scaled_gemm(
    a, b, sa, sb, c, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    PA: tl.constexpr = 2 if A == "e2m1" else 1
    PB: tl.constexpr = 2 if B == "e2m1" else 1
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        at_a = start // PA + tl.arange(0, BLOCK_K // PA)
        at_b = start // PB + tl.arange(0, BLOCK_K // PB)
        block = start // VEC + tl.arange(0, BLOCK_K // VEC)
        x = tl.load(a + rows[:, None] * (K // PA) + at_a[None, :])
        y = tl.load(b + columns[None, :] * (K // PB) + at_b[:, None])
        of_x = tl.load(sa + rows[:, None] * (K // VEC) + block[None, :])
        of_y = tl.load(sb + columns[:, None] * (K // VEC) + block[None, :])
        acc = tl.dot_scaled(x, of_x, A, y, of_y, B, acc)
    tl.store(c + rows[:, None] * N + columns[None, :], acc)


@triton.jit
def scaled_gemm_by_descriptors(
    a, b, sa, sb, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr, VEC: tl.constexpr,
):  # fmt: skip
    PA: tl.constexpr = 2 if A == "e2m1" else 1
    PB: tl.constexpr = 2 if B == "e2m1" else 1
    M: tl.constexpr = BLOCK_M // 128
    N: tl.constexpr = BLOCK_N // 128
    SCALES: tl.constexpr = BLOCK_K // VEC
    row, column = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, K // BLOCK_K):
        x = a.load([row * BLOCK_M, k * BLOCK_K // PA])
        y = b.load([column * BLOCK_N, k * BLOCK_K // PB])
        of_x = sa.load([0, row * M, k * (SCALES // 4), 0, 0]).reshape(M, SCALES // 4, 32, 4, 4)
        of_y = sb.load([0, column * N, k * (SCALES // 4), 0, 0]).reshape(N, SCALES // 4, 32, 4, 4)
        of_x = of_x.trans(0, 3, 2, 1, 4).reshape(BLOCK_M, SCALES)
        of_y = of_y.trans(0, 3, 2, 1, 4).reshape(BLOCK_N, SCALES)
        acc = tl.dot_scaled(x, of_x, A, y.T, of_y, B, acc)
    c.store([row * BLOCK_M, column * BLOCK_N], acc)
