"""Kernels without products in plain Triton, one row of a matrix a program: what `benchmarks/memory.py` times.

Matrices are bf16 with rows `stride` elements apart, and columns behind the last one are masked. Sums are float32.
"""

import triton
import triton.language as tl


@triton.jit
def softmax(X, Y, stride, N, BLOCK: tl.constexpr):
    """y = exp(x - max(x)) / sum(exp(x - max(x))) of each row."""
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(X + row * stride + offs, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(Y + row * stride + offs, y.to(tl.bfloat16), mask=mask)


@triton.jit
def rms_norm(X, Y, weight, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    """y = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + eps), which is stored for the backward pass."""
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(X + row * stride + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(weight + offs, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(rstd_ptr + row, rstd)
    y = x * rstd * w
    tl.store(Y + row * stride + offs, y.to(tl.bfloat16), mask=mask)


@triton.jit
def layer_norm(X, Y, weight, bias, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    """y = (x - mean) * rstd * weight + bias; mean and rstd are stored for the backward pass."""
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(X + row * stride + offs, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(weight + offs, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(bias + offs, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    y = centred * rstd * w + b
    tl.store(Y + row * stride + offs, y.to(tl.bfloat16), mask=mask)


@triton.jit
def cross_entropy(X, labels, loss_ptr, stride, N, BLOCK: tl.constexpr):
    """loss = log(sum(exp(x))) - x[label] of each row, which is replaced by its gradient."""
    row = tl.program_id(0)
    X += row * stride
    label = tl.load(labels + row)
    target = tl.load(X + label).to(tl.float32)
    m = float("-inf")
    d = 0.0
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < N, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, axis=0))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new), axis=0)
        m = new
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < N, other=-float("inf")).to(tl.float32)
        g = tl.exp(x - m) / d
        g = tl.where(offs == label, g - 1.0, g)
        tl.store(X + offs, g.to(tl.bfloat16), mask=offs < N)
    tl.store(loss_ptr + row, tl.log(d) + m - target)


@triton.jit
def swiglu(A, B, C, stride, N, BLOCK: tl.constexpr):
    """c = a * sigmoid(a) * b, a tile of a row a program."""
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    a = tl.load(A + row * stride + offs, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(B + row * stride + offs, mask=mask, other=0.0).to(tl.float32)
    c = a * tl.sigmoid(a) * b
    tl.store(C + row * stride + offs, c.to(tl.bfloat16), mask=mask)


@triton.jit
def rope(X, Y, cos_ptr, sin_ptr, stride, HEADS: tl.constexpr, HALF: tl.constexpr):
    """Rotary embedding of the heads of a row: halves [x1, x2] of each head become [x1 c - x2 s, x2 c + x1 s]."""
    row = tl.program_id(0)
    half = tl.arange(0, HALF)
    offs = tl.arange(0, HEADS)[:, None] * (2 * HALF) + half[None, :]
    c = tl.load(cos_ptr + row * HALF + half).to(tl.float32)[None, :]
    s = tl.load(sin_ptr + row * HALF + half).to(tl.float32)[None, :]
    x1 = tl.load(X + row * stride + offs).to(tl.float32)
    x2 = tl.load(X + row * stride + offs + HALF).to(tl.float32)
    tl.store(Y + row * stride + offs, (x1 * c - x2 * s).to(tl.bfloat16))
    tl.store(Y + row * stride + offs + HALF, (x2 * c + x1 * s).to(tl.bfloat16))


@triton.jit
def softmax_loop(X, Y, stride, N, BLOCK: tl.constexpr):
    """`softmax` of rows longer than a tile: the maximum and the sum go along, then the row is read again."""
    row = tl.program_id(0)
    X += row * stride
    Y += row * stride
    m = float("-inf")
    d = 0.0
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < N, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, axis=0))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new), axis=0)
        m = new
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < N, other=-float("inf")).to(tl.float32)
        tl.store(Y + offs, (tl.exp(x - m) / d).to(tl.bfloat16), mask=offs < N)


@triton.jit
def rms_norm_loop(X, Y, weight, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    """`rms_norm` of rows longer than a tile."""
    row = tl.program_id(0)
    X += row * stride
    Y += row * stride
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < N, other=0.0).to(tl.float32)
        squares += x * x
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < N, other=0.0).to(tl.float32)
        w = tl.load(weight + offs, mask=offs < N, other=0.0).to(tl.float32)
        tl.store(Y + offs, (x * rstd * w).to(tl.bfloat16), mask=offs < N)


@triton.jit
def layer_norm_loop(X, Y, weight, bias, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    """`layer_norm` of rows longer than a tile."""
    row = tl.program_id(0)
    X += row * stride
    Y += row * stride
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.load(X + offs, mask=offs < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < N, other=0.0).to(tl.float32)
        centred = tl.where(offs < N, x - mean, 0.0)
        squares += centred * centred
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < N
        x = tl.load(X + offs, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(weight + offs, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(bias + offs, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + offs, ((x - mean) * rstd * w + b).to(tl.bfloat16), mask=mask)
