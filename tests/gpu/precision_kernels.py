"""Kernels whose results say how exact a product, a division, a root, an exponential or a reduction is."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr
):
    """C = A·B^T in f32, by the precision that is asked for."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a_here = (rm[:, None] < M) & (rk[None, :] < K - k)
        b_here = (rn[:, None] < N) & (rk[None, :] < K - k)
        a = tl.load(a_ptr + rm[:, None] * K + (k + rk)[None, :], mask=a_here, other=0.0)
        b = tl.load(b_ptr + rn[:, None] * K + (k + rk)[None, :], mask=b_here, other=0.0)
        acc = tl.dot(a, b.T, acc, input_precision=PRECISION)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def product8(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVERY: tl.constexpr):
    """C = A·B^T of fp8, whose sums go into the accumulator every EVERY products."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a_here = (rm[:, None] < M) & (rk[None, :] < K - k)
        b_here = (rn[:, None] < N) & (rk[None, :] < K - k)
        a = tl.load(a_ptr + rm[:, None] * K + (k + rk)[None, :], mask=a_here, other=0.0)
        b = tl.load(b_ptr + rn[:, None] * K + (k + rk)[None, :], mask=b_here, other=0.0)
        acc = tl.dot(a, b.T, acc, max_num_imprecise_acc=EVERY)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def functions(
    x_ptr, y_ptr, quotient, rounded_quotient, root, rounded_root, power, power2, logarithm, reciprocal_root,
    N, B: tl.constexpr,
):  # fmt: skip
    """One tensor for each function of x, or of x and y."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    here = at < N
    x = tl.load(x_ptr + at, mask=here, other=1.0)
    y = tl.load(y_ptr + at, mask=here, other=1.0)
    tl.store(quotient + at, x / y, mask=here)
    tl.store(rounded_quotient + at, tl.math.div_rn(x, y), mask=here)
    tl.store(root + at, tl.sqrt(y), mask=here)
    tl.store(rounded_root + at, tl.sqrt_rn(y), mask=here)
    tl.store(power + at, tl.exp(x), mask=here)
    tl.store(power2 + at, tl.exp2(x), mask=here)
    tl.store(logarithm + at, tl.log(y), mask=here)
    tl.store(reciprocal_root + at, tl.rsqrt(y), mask=here)


@triton.jit
def waves(x_ptr, sine, cosine, error_function, logarithm2, N, B: tl.constexpr):
    """One tensor for each function of x."""
    at = tl.program_id(0) * B + tl.arange(0, B)
    here = at < N
    x = tl.load(x_ptr + at, mask=here, other=1.0)
    tl.store(sine + at, tl.sin(x), mask=here)
    tl.store(cosine + at, tl.cos(x), mask=here)
    tl.store(error_function + at, tl.erf(x), mask=here)
    tl.store(logarithm2 + at, tl.log2(x), mask=here)
