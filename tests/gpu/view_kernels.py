"""Kernels in which elements move between threads, a tile for every program, for `tests.gpu.against_triton`."""

import triton
import triton.language as tl


@triton.jit
def rotated(x_ptr, y_ptr, R: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Neighbouring columns are the two parts of a number."""
    at = (tl.program_id(0) * R + tl.arange(0, R))[:, None] * C + tl.arange(0, C)[None, :]
    a, b = tl.split(tl.reshape(tl.load(x_ptr + at), (R, C // 2, 2)))
    tl.store(y_ptr + at, tl.interleave(a - b, a * b))


@triton.jit
def halves(x_ptr, y_ptr, R: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """The two halves of every row change places."""
    at = (tl.program_id(0) * R + tl.arange(0, R))[:, None] * C + tl.arange(0, C)[None, :]
    a, b = tl.split(tl.permute(tl.reshape(tl.load(x_ptr + at), (R, 2, C // 2)), (0, 2, 1)))
    tl.store(y_ptr + at, tl.reshape(tl.permute(tl.join(-b, a), (0, 2, 1)), (R, C)))


@triton.jit
def grouped(x_ptr, y_ptr, R: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Every quarter of a row, less its largest."""
    at = (tl.program_id(0) * R + tl.arange(0, R))[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.reshape(tl.load(x_ptr + at), (R, 4, C // 4))
    tl.store(y_ptr + at, tl.reshape(v - tl.max(v, 2)[:, :, None], (R, C)))


@triton.jit
def ordered(x_ptr, y_ptr, R: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """Every row from the smallest to the largest."""
    at = (tl.program_id(0) * R + tl.arange(0, R))[:, None] * C + tl.arange(0, C)[None, :]
    tl.store(y_ptr + at, tl.sort(tl.load(x_ptr + at), 1))


@triton.jit
def _pair(a0, b0, a1, b1):  # type: ignore[no-untyped-def]
    return a0 * a1, b0 * a1 + b1


@triton.jit
def recurrence(x_ptr, y_ptr, R: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    """h = a h + x along every row."""
    at = (tl.program_id(0) * R + tl.arange(0, R))[:, None] * C + tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + at)
    _, h = tl.associative_scan((x * 0.25, x), 1, _pair)
    tl.store(y_ptr + at, h)
