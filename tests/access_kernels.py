"""Kernels that spell tile accesses in many ways, for `test_graph_access`. X is read, Y is written."""

# mypy: disable-error-code=no-untyped-def
# ruff: noqa: B007, SIM300 - spellings that users have

import triton
import triton.language as tl


@triton.jit
def comparisons(X, Y, N, first):
    """Every comparison, both operand orders; lower and upper bounds."""
    i = tl.arange(0, 16)
    a = tl.load(X + i, mask=(i < N) & (first <= i), other=1.0)
    b = tl.load(X + 3 + i, mask=(N > i + 3) & (i >= first), other=2.0)
    c = tl.load(X + i, mask=(i <= N - 5) & (i > 2) & (i < 40) & (0 <= i), other=0.0)
    d = tl.load(X + i, mask=(2 * i < 13) & (i * 4 >= 7) & (i < N), other=0.0)
    tl.store(Y + i, a + b, mask=i < 11)
    tl.store(Y + 16 + i, c, mask=first < 16 - i)
    tl.store(Y + 32 + i, d)


@triton.jit
def other_masks(X, Y, N, first):
    """Masks that are not only bounds stay, and so does what else a masked element reads as."""
    i = tl.arange(0, 8)[:, None]
    j = tl.arange(0, 16)[None, :]
    a = tl.load(X + i * 16 + j, mask=(i + j < N) & (i < 6), other=0.0)
    b = tl.load(X + i * 16 + j, mask=(i < first) | (j < 3), other=-1.0)
    c = tl.load(X + i * 16 + j, mask=(j < first) & (j < N), other=a)
    d = tl.load(X + j + i * 16, mask=(first < N) & (j < N) & (i == 2), other=0.0)
    tl.store(Y + i * 16 + j, a + b + c + d, mask=(i != 3) & (j < N))


@triton.jit
def views(X, Y, N, first):
    """Transposed tiles, columns, rows, tiles that repeat an element, and axes of extent 1."""
    i = tl.arange(0, 8)
    j = tl.arange(0, 16)
    a = tl.load(X + i[None, :] + j[:, None] * 16, mask=j[:, None] < N, other=0.0)  # 16x8, row-major
    b = tl.load(X + i[:, None] * 16 + j[None, :])
    b = tl.trans(tl.load(tl.trans(X + i[:, None] * 16 + j[None, :]), mask=tl.trans((j < N)[None, :]), other=0.0)) + b
    c = tl.load(X + first + i[:, None])
    d = tl.load(X + (j + i[:, None] * 0))
    e = tl.load(X + tl.arange(0, 1)[:, None] + first)
    f = tl.load(X + tl.reshape(j, [1, 16]) * 2)
    tl.store(Y + i[:, None] + j[None, :] * 8, tl.trans(a) + b + c + d + e + f)
    tl.store(Y + 128 + tl.arange(0, 1), tl.reshape(tl.sum(d) + tl.zeros([1], tl.float32), [1]))


@triton.jit
def carried(X, Y, N, first):
    """Induction variables of every kind: pointers, offsets, scalars, a negative step, steps that do
    not divide, and their values after the loop."""
    i = tl.arange(0, 8)
    p = X + i
    q = X + 100 + first
    offs = i * 2
    number = first
    total = tl.zeros([8], tl.float32)
    for k in range(first, N, 3):
        total += tl.load(p) + tl.load(q) + tl.load(X + offs, mask=offs < N, other=0.0) + tl.load(X + number + i)
        p += 5
        q -= 1
        offs += first + 1
        number += 2
    total += tl.load(p) + tl.load(q) + tl.load(X + offs) + tl.load(X + number + i)
    for k in range(0, 6, 2):
        total += tl.load(p + k)
        p += 1
    for k in range(first, N):
        total += tl.load(q)
        q += 2
    tl.store(Y + i, total + tl.load(p) + tl.load(q))


@triton.jit
def not_inductive(X, Y, N, first):
    """Scalars that change irregularly are symbols of their own."""
    i = tl.arange(0, 8)
    total = tl.zeros([8], tl.float32)
    number = first
    for k in range(0, N):
        total += tl.load(X + number + i)
        number = (number * 3 + k) % 64
    tl.store(Y + i, total + tl.load(X + number + i))


@triton.jit
def quotients(X, Y, N, first):
    """Scalar divisions, remainders, minima; scalars loaded from memory."""
    i = tl.arange(0, 16)
    pid = tl.program_id(0) + first
    group = pid // tl.cdiv(N, 4)
    a = tl.load(X + (pid % 3) * 16 + group * 2 + i)
    b = tl.load(X + tl.minimum(pid // tl.cdiv(N, 4), 5) + tl.maximum(first, 2) + (i << 2), mask=i < N - group)
    start = tl.load(X + 1).to(tl.int32)
    c = tl.load(X + start + i, mask=i + start < N, other=0.0)
    tl.store(Y + tl.program_id(0) * 16 + i, a + tl.where(i < N - group, b, 0.0) + c)


@triton.jit
def descriptors(X, Y, N, first):
    """Descriptors made in the kernel, blocks with axes of extent 1, negative and outer indices."""
    x = tl.make_tensor_descriptor(X + 16, [2, N, 16], [128, 16, 1], [1, 8, 8])
    y = tl.make_tensor_descriptor(Y, [N, 16], [16, 1], [8, 8])
    a = x.load([1, first, 12]).reshape(8, 8)
    for k in range(0, N, 8):
        b = x.load([0, k - 2, -4]).reshape(8, 8)
        y.store([k, 8], a + b)
        y.atomic_add([k + 1, 3], b)


@triton.jit
def atomics(X, Y, N, first):
    """Additions to memory."""
    i = tl.arange(0, 8)[:, None]
    j = tl.arange(0, 16)[None, :]
    tl.atomic_add(Y + i * 16 + j, tl.load(X + j + i * 16), mask=(i < first) & (j < N))
    tl.atomic_add(Y + j * 8 + i, tl.load(X + j + i * 16))


@triton.jit
def invariants(X, Y, N, first):
    """Scalars computed in the loop that do not depend on it."""
    i = tl.arange(0, 8)
    total = tl.zeros([8], tl.float32)
    p = X + i
    for k in range(0, N):
        total += tl.load(p)
        p += tl.program_id(0) * 2 + first
    tl.store(Y + tl.program_id(0) * 8 + i, total)


@triton.jit
def wrapping(X, Y, N, first):
    """Rows that come round, which a store shows that nothing masks, through pointers that a loop advances."""
    i = (first + tl.arange(0, 8)) % 10
    p = X + i[:, None] * 16 + tl.arange(0, 4)[None, :]
    q = Y + tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 4)[None, :]
    for _ in range(0, 4):
        tl.store(q, tl.load(p) + N)
        p += 4
        q += 4


KERNELS = (
    "comparisons", "other_masks", "views", "carried", "not_inductive", "quotients", "descriptors", "atomics",
    "invariants", "wrapping",
)  # fmt: skip


@triton.jit
def block_pointers(X, Y, N, first):
    """Block pointers, which Triton 3.6 has and 3.9 has not."""
    x = tl.make_block_ptr(X, (N, 16), (16, 1), (first, 0), (8, 8), (1, 0))
    total = tl.zeros([8, 8], tl.float32)
    for _ in range(0, 16, 8):
        total += tl.load(x, boundary_check=(0, 1), padding_option="zero")
        x = tl.advance(x, (-1, 8))
    y = tl.make_block_ptr(Y, (N, 8), (8, 1), (first, 0), (8, 8), (1, 0))
    tl.store(y, total, boundary_check=(0,))
