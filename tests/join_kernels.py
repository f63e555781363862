"""Kernels whose loops follow one another, for `test_graph_join`. X is read, Y is written."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def masked_last(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The second loop masks, and scales in front of the maximum instead of behind it."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    top = tl.full([1], -float("inf"), tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        top = tl.maximum(top, tl.max(x, 0) * scale)
        total += tl.exp2(x * scale - top)
    for start in range(middle, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        x = tl.where(start + offs < end, x * scale, -1.0e6)
        top = tl.maximum(top, tl.max(x, 0))
        total += tl.exp2(x - top)
    tl.store(Y + offs, total)


@triton.jit
def returns_early(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """Both loops are behind an early return, so both are under one condition."""
    if split == 1:
        return
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += x * scale
    for start in range(middle, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(start + offs < end, x, 0.25) * scale
    tl.store(Y + offs, total)


@triton.jit
def other_condition(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The second loop alone is under a condition."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += x * scale
    if split != 1:
        for start in range(middle, end, BLOCK):
            x = tl.exp2(tl.load(X + start + offs))
            total += tl.where(start + offs < end, x, 0.25) * scale
    tl.store(Y + offs, total)


@triton.jit
def masked_first(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The first loop masks; it is the short one."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    first = split * BLOCK
    for start in range(first, first + BLOCK, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        x = tl.where(offs >= 3, x, 0.5)
        total = total * scale + x
    for start in range(first + BLOCK, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total = total * scale + x
    tl.store(Y + offs, total)


@triton.jit
def three(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """Masked, not masked, masked: a window."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    first, last = split * BLOCK + BLOCK, split * BLOCK + BLOCK + end // BLOCK * BLOCK
    for start in range(first - BLOCK, first, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(offs >= 5, x, 0.25) * scale
    for start in range(first, last, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += x * scale
    for start in range(last, last + 2 * BLOCK, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(offs < 7, x, 0.125) * scale
    tl.store(Y + offs, total)


@triton.jit
def other_function(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The second loop takes another function."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    for start in range(middle, end, BLOCK):
        total += tl.sin(tl.load(X + start + offs))
    tl.store(Y + offs, total)


@triton.jit
def other_tensor(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The second loop adds what it loads beside."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    for start in range(middle, end, BLOCK):
        total += tl.exp2(tl.load(X + start + offs)) + tl.load(X + offs + start + BLOCK)
    tl.store(Y + offs, total)


@triton.jit
def gap(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The second loop leaves a block out."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    for start in range(middle + BLOCK, end, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    tl.store(Y + offs, total)


@triton.jit
def no_whole_steps(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The first loop may end within a step."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, split, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    for start in range(split, end, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    tl.store(Y + offs, total)


@triton.jit
def other_steps(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The second loop has steps of its own."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    for start in range(middle, end, 2 * BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    tl.store(Y + offs, total)


@triton.jit
def read_between(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """What the first loop leaves is stored before the second one."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    tl.store(Y + BLOCK + offs, total)
    for start in range(middle, end, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    tl.store(Y + offs, total)


@triton.jit
def begins_anew(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The second loop carries on with something else."""
    offs = tl.arange(0, BLOCK)
    first = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        first += tl.exp2(tl.load(X + start + offs))
    total = first * scale
    for start in range(middle, end, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    tl.store(Y + offs, total)


@triton.jit
def read_unmasked_too(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The second loop reads a value both masked and as it is: it cannot be changed in place."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    other = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += x
        other += x * x
    for start in range(middle, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(start + offs < end, x, 0.0)
        other += x * x
    tl.store(Y + offs, total + other)


@triton.jit
def masked_load(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """What is masked is a loaded tile itself, which may be in shared memory."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        x = tl.load(X + start + offs)
        total += tl.exp2(x)
    for start in range(middle, end, BLOCK):
        x = tl.load(X + start + offs)
        total += tl.exp2(tl.where(start + offs < end, x, 0.0))
    tl.store(Y + offs, total)


@triton.jit
def ragged(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """One loop that masks wherever it ends, and a window that both sides of move."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        at = start + offs
        x = tl.exp2(tl.load(X + at))
        total += tl.where((at < end - 3) & (split + at >= 9), x, 0.0)
    tl.store(Y + offs, total)


@triton.jit
def masked_out(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The mask says what is left out."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(start + offs >= split, 2.0, x)
    tl.store(Y + offs, total)


@triton.jit
def same_mask(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """A mask that no iteration changes, and one that no range of indices explains."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        y = tl.exp2(x)
        total += tl.where(offs < split, x, 0.0) + tl.where((start + offs) % 3 == 0, y, 0.0)
    tl.store(Y + offs, total)


@triton.jit
def read_beside_the_mask(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """What is masked is read as it is, too."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(start + offs < split, x, 0.0) + x
    tl.store(Y + offs, total)


@triton.jit
def floats_decide(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """A comparison of floats, whose negation NaN would not turn."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(start * 1.0 < scale, x, 0.0)
    tl.store(Y + offs, total)


@triton.jit
def other_numbers(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """What is not masked becomes a tile of numbers that are made, too."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(start + offs < end, x, offs * scale)
    tl.store(Y + offs, total)


@triton.jit
def short(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """Two iterations, in both of which something is masked."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    first = split * BLOCK
    for start in range(first, first + 2 * BLOCK, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(start + offs < end, x, 0.0)
    tl.store(Y + offs, total)


@triton.jit
def split_off(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """The kernel has split its last, masked iteration off itself; it does something else there."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    whole = end // BLOCK * BLOCK
    for start in range(0, whole, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    for start in range(whole, end, BLOCK):
        x = tl.sin(tl.load(X + start + offs))
        total += tl.where(start + offs < end, x, 0.0)
    tl.store(Y + offs, total)


@triton.jit
def quotient(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """As `masked_last`, but the first loop ends at a multiple of BLOCK that the grid index gives."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = tl.program_id(0) * 24 // BLOCK * BLOCK
    for start in range(0, middle, BLOCK):
        total += tl.exp2(tl.load(X + start + offs))
    for start in range(middle, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs))
        total += tl.where(start + offs < end, x, 0.0)
    tl.store(Y + offs, total)


@triton.jit
def loaded_factors(X, Y, scale, split, end, BLOCK: tl.constexpr):
    """Both scale by numbers that they load in each iteration, from other places."""
    offs = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    middle = split * BLOCK
    for start in range(0, middle, BLOCK):
        x = tl.exp2(tl.load(X + start + offs)) * tl.load(X + start // BLOCK)
        total = total * scale + x
    for start in range(middle, end, BLOCK):
        x = tl.exp2(tl.load(X + start + offs)) * tl.load(X + start // BLOCK + 100)
        x = tl.where(start + offs < end, x, -1.0)
        total = total * scale + x
    tl.store(Y + offs, total)
