"""Kernels whose loops multiply tiles, for targets with accumulators in tensor memory; some are refused there."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def a_held_operand(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """B is loaded in front of the loop and read by all of it."""
    pm = tl.program_id(0)
    w = b.load([0, 0])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([pm * BM, k]), w, acc)
    c.store([pm * BM, 0], acc.to(tl.bfloat16))


@triton.jit
def two_into_one(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two products add to one accumulator."""
    pm = tl.program_id(0)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([pm * BM, k]), b.load([k, 0]), acc)
        acc = tl.dot(a.load([pm * BM, k]), b.load([k, 0]), acc)
    c.store([pm * BM, 0], acc.to(tl.bfloat16))


@triton.jit
def from_ones(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The accumulator begins with ones."""
    pm = tl.program_id(0)
    acc = tl.full((BM, BN), 1.0, dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([pm * BM, k]), b.load([k, 0]), acc)
    c.store([pm * BM, 0], acc.to(tl.bfloat16))


@triton.jit
def one_loop_behind_another(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Two loops, each with an accumulator of its own."""
    pm = tl.program_id(0)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([pm * BM, k]), b.load([k, 0]), acc)
    more = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        more = tl.dot(a.load([pm * BM, k]), b.load([k, 0]), more)
    c.store([pm * BM, 0], (acc * more).to(tl.bfloat16))


@triton.jit
def a_loop_that_goes_on(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The second loop adds to what the first one made."""
    pm = tl.program_id(0)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([pm * BM, k]), b.load([k, 0]), acc)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([pm * BM, k]), b.load([0, k]), acc)
    c.store([pm * BM, 0], acc.to(tl.bfloat16))


@triton.jit
def the_last_product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Nothing is added to: the last iteration's product is left."""
    pm = tl.program_id(0)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([pm * BM, k]), b.load([k, 0]))
    c.store([pm * BM, 0], acc.to(tl.bfloat16))


@triton.jit
def squares(q, k, v, o, M, K, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, START: tl.constexpr):
    """Threads read a product of every iteration, and halve what another one adds up, which begins with START."""
    pm = tl.program_id(0)
    a = q.load([pm * BM, 0])
    acc = tl.full((BM, D), START, dtype=tl.float32)
    for n in range(0, K, BK):
        s = tl.dot(a, k.load([n, 0]).T)
        acc = tl.dot((s * s).to(tl.bfloat16), v.load([n, 0]), acc * 0.5)
    o.store([pm * BM, 0], acc.to(tl.bfloat16))
