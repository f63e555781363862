"""`while` loops that do not count. What each is run at is in `while_kernels.twill.toml`."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def searched(x, y, starts, count, B: tl.constexpr):
    """y[row] = x[row] times how many of `starts`, which grow, are no larger than row."""
    row, low, high = tl.program_id(0), 0, count
    while low < high:
        middle = (low + high) // 2
        if tl.load(starts + middle) <= row:
            low = middle + 1
        else:
            high = middle
    offsets = row * B + tl.arange(0, B)
    tl.store(y + offsets, tl.load(x + offsets) * low)


@triton.jit
def chained(x, y, flags, B: tl.constexpr):
    """y[row] = the sum of the rows of x from this one on whose flag is set, and where it ends."""
    row = tl.program_id(0)
    i, total = row, tl.zeros([B], tl.float32)
    while tl.load(flags + i) != 0:
        total += tl.load(x + i * B + tl.arange(0, B))
        i += 1
    tl.store(y + row * B + tl.arange(0, B), total + i)


@triton.jit
def halved(y, n, B: tl.constexpr):
    """y[row] = how often n + row can be halved, and for how many powers of three that are less, unless row is 1."""
    row, steps, powers = tl.program_id(0), 0, 0
    if row != 1:
        left = n + row
        while left > 1:
            left = left // 2
            steps += 1
            power = 1
            while power < left:
                power = power * 3
                powers += 1
    tl.store(y + row * B + tl.arange(0, B), tl.arange(0, B) * powers + steps)
