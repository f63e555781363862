"""Decoding with paged keys and values in plain Triton: what `benchmarks/paged.py` times."""

import triton
import triton.language as tl


@triton.jit
def paged_decode(
    q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, o_ptr, scale, most, page_stride, row_stride,
    GROUP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """The GROUP query heads of one head of keys, of one sequence: softmax(q k^T scale) v over its pages.

    q, o: [sequences, heads of keys, GROUP, D]; k, v: [pages, PAGE, heads of keys, D]; table: [sequences, most].
    """
    sequence, head = tl.program_id(0), tl.program_id(1)
    length = tl.load(length_ptr + sequence)
    g, d, n = tl.arange(0, GROUP), tl.arange(0, D), tl.arange(0, PAGE)
    at = (sequence * tl.num_programs(1) + head) * GROUP * D
    q = tl.load(q_ptr + at + g[:, None] * D + d[None, :])
    inside = n[:, None] * row_stride + head * D + d[None, :]
    best = tl.full((GROUP,), float("-inf"), tl.float32)
    total = tl.zeros((GROUP,), tl.float32)
    acc = tl.zeros((GROUP, D), tl.float32)
    for page in range(0, tl.cdiv(length, PAGE)):
        place = tl.load(table_ptr + sequence * most + page).to(tl.int64) * page_stride
        k = tl.load(k_ptr + place + inside)
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where((page * PAGE + n < length)[None, :], s, float("-inf"))
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        kept = tl.exp2(best - new)
        total = total * kept + tl.sum(p, 1)
        v = tl.load(v_ptr + place + inside)
        acc = tl.dot(p.to(tl.bfloat16), v, acc * kept[:, None])
        best = new
    tl.store(o_ptr + at + g[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.bfloat16))
