"""Kernels whose loops multiply and add uniform numbers, for `test_graph_linear`. X is read, Y is written."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def weighed(x, top, total):
    """The step of a softmax: maximum and sum of what came so far, with the columns of x."""
    now = tl.maximum(top, tl.max(x, 1))
    return now, total * tl.exp2(top - now) + tl.sum(tl.exp2(x - now[:, None]), 1)


@triton.jit
def capped(X, Y, scale, end, BLOCK: tl.constexpr):
    """A softmax of soft-capped scores, masked at the end."""
    rows = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = (2.0 * tl.sigmoid(2.0 * (x * scale)) - 1.0) * 72.0
        x = tl.where((start + rows < end)[None, :], x, -1.0e6)
        top, total = weighed(x, top, total)
    tl.store(Y + rows, total)
    tl.store(Y + BLOCK + rows, top)


@triton.jit
def scaled(X, Y, scale, end, BLOCK: tl.constexpr):
    """A softmax of scores that are scaled and masked in front of their maximum."""
    rows = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = tl.where((start + rows < end)[None, :], x * (scale * 1.5), -1.0e6)
        top, total = weighed(x, top, total)
    tl.store(Y + rows, total)
    tl.store(Y + BLOCK + rows, top)


@triton.jit
def scaled_often(X, Y, scale, end, BLOCK: tl.constexpr):
    """A scale whose third power may vanish."""
    rows = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = tl.where((start + rows < end)[None, :], x * (scale * scale * scale), -1.0e6)
        top = tl.maximum(top, tl.max(tl.exp2(x - tl.max(x, 1)[:, None]), 1))
    tl.store(Y + rows, top)


@triton.jit
def turned(X, Y, scale, end, BLOCK: tl.constexpr):
    """A negative factor turns the order round: the maximum is that of what was made."""
    rows = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        top = tl.maximum(top, tl.max(((x * 0.25) - 1.0) * -3.0, 1))
    tl.store(Y + rows, top)


@triton.jit
def subtracted(X, Y, scale, end, BLOCK: tl.constexpr):
    """What is subtracted from a number, and added to a vector."""
    rows = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = 5.0 - (x * 0.5 + 2.0) / 3.0
        total += tl.sum(tl.exp(total[:, None] * 0.01 - x), 1)
    tl.store(Y + rows, total)


@triton.jit
def far(X, Y, scale, end, BLOCK: tl.constexpr):
    """Factors that overflow float32 when they meet in another order."""
    rows = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        total += tl.sum(tl.exp2(((x * 1.0e-30) * 1.0e30) * scale), 1)
    tl.store(Y + rows, total)


@triton.jit
def read_between(X, Y, scale, end, BLOCK: tl.constexpr):
    """Every step is needed by itself."""
    rows = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        one = x * scale
        two = one * 3.0
        total += tl.sum(one * one, 1) + tl.sum(two * one, 1)
    tl.store(Y + rows, total)


@triton.jit
def masked_far(X, Y, scale, end, BLOCK: tl.constexpr):
    """Masked by the least float32, in front of a factor that would make it overflow; the first block is all masked."""
    rows = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end + BLOCK, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = tl.where((start + rows >= BLOCK)[None, :], x * 0.25 - 1.0, -3.4028234663852886e38)
        top, total = weighed(x, top, total)
    tl.store(Y + rows, total)
    tl.store(Y + BLOCK + rows, top)


@triton.jit
def masked_far_with_promise(X, Y, scale, end, BLOCK: tl.constexpr):
    """The same beside a factor that is known at a launch."""
    rows = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end + BLOCK, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = tl.where((start + rows >= BLOCK)[None, :], x * (scale * 1.5), -3.4028234663852886e38)
        top, total = weighed(x, top, total)
    tl.store(Y + rows, total)
    tl.store(Y + BLOCK + rows, top)


@triton.jit
def masked_at_infinity(X, Y, scale, end, BLOCK: tl.constexpr):
    """Minus infinity is what it is on any line; the first column is never masked."""
    rows = tl.arange(0, BLOCK)
    top = tl.full([BLOCK], -1.0e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = tl.where((start + rows < end)[None, :], (x * 0.25 - 1.0) * 3.0, -float("inf"))
        top, total = weighed(x, top, total)
    tl.store(Y + rows, total)
    tl.store(Y + BLOCK + rows, top)


@triton.jit
def masked_by_nothing(X, Y, scale, end, BLOCK: tl.constexpr):
    """A zero that is exactly zero: its reciprocal is minus infinity or plus infinity, and never a large number."""
    rows = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = tl.where((start + rows < end)[None, :], (x * 0.3 - 0.7) * 3.3, 0.0)
        total += tl.max(tl.exp2(tl.where(x == 0.0, 1.0, x) - tl.max(x, 1)[:, None]), 1)
    tl.store(Y + rows, total)


@triton.jit
def to_integers(X, Y, scale, end, BLOCK: tl.constexpr):
    """A number that is added and subtracted for the sake of its rounding."""
    rows = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = ((x * 5.0 + 12582912.0) - 12582912.0) * 0.5
        total += tl.sum(tl.exp(x - total[:, None] * 0.01), 1)
    tl.store(Y + rows, total)


@triton.jit
def to_fewer_bits(X, Y, scale, end, BLOCK: tl.constexpr):
    """The same with numbers of no great size, and a factor in between."""
    rows = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = ((x * 1.0e-4 + 1024.0) * 2.0 - 2048.0) * 1.0e4
        total += tl.sum(tl.exp(x - total[:, None] * 0.01), 1)
    tl.store(Y + rows, total)


@triton.jit
def far_from_vectors(X, Y, scale, end, BLOCK: tl.constexpr):
    """A large number is rounded with before a vector as large takes it away."""
    rows = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.load(X + rows[:, None] * 128 + (start + rows)[None, :])
        x = (x * 5.0 + 12582912.0) - (total * 0.0 + 12582912.0)[:, None]
        total += tl.sum(tl.exp2(x), 1)
    tl.store(Y + rows, total)
