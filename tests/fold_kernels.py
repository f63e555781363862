"""Reductions and scans of several tiles by functions of their own, and several products at once."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def welfords(m0, s0, w0, m1, s1, w1):
    d, w = m1 - m0, w0 + w1
    part = tl.where(w == 0.0, 0.0, w1 / w)
    return m0 + d * part, s0 + s1 + d * d * w0 * part, w


@triton.jit
def welford(x, y, z, R: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, R)
    v = tl.load(x + i[:, None] * C + tl.arange(0, C)[None, :])
    mean, square, _ = tl.reduce((v, tl.zeros_like(v), tl.full((R, C), 1.0, tl.float32)), 1, welfords)
    tl.store(y + i, mean)
    tl.store(z + i, square)


@triton.jit
def linear(a0, b0, a1, b1):
    """First a0 h + b0, then a1 h + b1: not commutative."""
    return a0 * a1, a1 * b0 + b1


@triton.jit
def whole(x, y, z, R: tl.constexpr, C: tl.constexpr):
    """Of a vector, to two numbers."""
    at = tl.arange(0, R * C)
    a, b = tl.reduce((tl.load(x + at), tl.load(y + at)), 0, linear)
    tl.store(z, a)
    tl.store(z + 1, b)


@triton.jit
def columns(x, y, z, R: tl.constexpr, C: tl.constexpr):
    j = tl.arange(0, C)
    at = tl.arange(0, R)[:, None] * C + j[None, :]
    a, b = tl.reduce((tl.load(x + at), tl.load(y + at)), 0, linear)
    tl.store(z + j, a)
    tl.store(z + C + j, b)


@triton.jit
def recurrence(x, y, z, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    _, h = tl.associative_scan((tl.load(x + at), tl.load(y + at)), 1, linear)
    tl.store(z + at, h)


@triton.jit
def backwards(x, y, z, R: tl.constexpr, C: tl.constexpr):
    at = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    _, h = tl.associative_scan((tl.load(x + at), tl.load(y + at)), 0, linear, reverse=True)
    tl.store(z + at, h)


@triton.jit
def products(x, y, z, G: tl.constexpr, N: tl.constexpr):
    g, i = tl.arange(0, G), tl.arange(0, N)
    at = g[:, None, None] * N * N + i[None, :, None] * N + i[None, None, :]
    tl.store(z + at, tl.dot(tl.load(x + at), tl.load(y + at)))
