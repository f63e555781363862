"""Triton kernels of single functions: what is emitted for them is held, bit by bit, against Triton's machine code."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def functions(x, exp, exp2, floor, ceil, root, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    values = tl.load(x + at)
    tl.store(exp + at, tl.exp(values))
    tl.store(exp2 + at, tl.exp2(values))
    tl.store(floor + at, tl.floor(values))
    tl.store(ceil + at, tl.ceil(values))
    tl.store(root + at, tl.sqrt(values))


@triton.jit
def integers(x, i8, u8, i16, u16, i32, u32, i64, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    values = tl.load(x + at)
    tl.store(i8 + at, values.to(tl.int8))
    tl.store(u8 + at, values.to(tl.uint8))
    tl.store(i16 + at, values.to(tl.int16))
    tl.store(u16 + at, values.to(tl.uint16))
    tl.store(i32 + at, values.to(tl.int32))
    tl.store(u32 + at, values.to(tl.uint32))
    tl.store(i64 + at, values.to(tl.int64))


@triton.jit
def error(x, y, B: tl.constexpr):
    """The error function."""
    i = tl.arange(0, B)
    tl.store(y + i, tl.math.erf(tl.load(x + i)))


@triton.jit
def sums(x, y, B: tl.constexpr, FORM: tl.constexpr, KIND: tl.constexpr):
    """Sums and differences of 16-bit floats and their products."""
    i = tl.arange(0, B)
    a, b = tl.load(x + i).to(KIND), tl.load(x + (i ^ 5)).to(KIND)
    p = a * b
    if FORM == "plus":
        r = a * b + b
    elif FORM == "minus":
        r = a - a * b
    elif FORM == "less":
        r = a * b - a
    elif FORM == "two products":
        r = a * a + b * b
    elif FORM == "a number":
        r = tl.load(x + 7).to(KIND) * b + a
    else:
        r = p * (p - b)
    tl.store(y + i, r.to(tl.float32))
