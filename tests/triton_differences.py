"""Where Triton's interpreter does something else than what Triton compiles for sm_90: the compiled code counts.

`CompiledArithmetic` is Triton's interpreter with these operations replaced, each by what the PTX instruction that
Triton emits is defined to do (PTX ISA, *Integer Arithmetic*, *Floating Point*, *cvt*). It shares no code with Twill:
small floats are looked up in the list of all numbers that they can be, everything else is NumPy at a width where it is
exact.
`DIFFERENCES` lists them with their reasons for `docs/operations.md`; `tests/gpu/awkward.py` records what the
instructions do on the GPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter

Array = Any


@dataclass(frozen=True)
class Difference:
    """operations: in Triton's words. interpreter, compiled, twill: what each does."""

    operations: str
    interpreter: str
    compiled: str
    ptx: str
    twill: str = "as compiled"


DIFFERENCES = (
    Difference(
        "bf16 arithmetic, comparisons, max, min, where",
        "computes with the bits as if they were integers",
        "rounds each result to nearest even",
        "add.bf16, mul.bf16, setp.lt.bf16, max.bf16, ...",
    ),
    Difference(
        "conversions f32, f64 -> bf16",
        "cuts the bits off; f64 raises",
        "round to nearest even, overflow to infinity; f64 is rounded once",
        "cvt.rn.bf16.f32, cvt.rn.bf16.f64",
    ),
    Difference(
        "conversions to fp8",
        "round half up without a carry, overflow wraps around, subnormal numbers are cut off",
        "round to nearest even and saturate at 448 (e4m3) and 57344 (e5m2), infinities too; NaN stays NaN",
        "cvt.rn.satfinite.e4m3x2.f32, cvt.rn.satfinite.e5m2x2.f32, ...f16x2",
    ),
    Difference(
        "conversions from fp8",
        "NaN and infinity of e5m2 become large numbers, NaN of e4m3 480",
        "are exact",
        "cvt.rn.f16x2.e4m3x2, cvt.rn.f16x2.e5m2x2",
    ),
    Difference(
        "conversion e5m2 -> bf16",
        "NaN and infinity become large numbers",
        "so they do: 65536 times 1, 1.25, 1.5 or 1.75",
        "prmt, shr.b32, mul.rn.bf16x2 by 2^112",
        "is exact: infinity stays infinity, NaN stays NaN",
    ),
    Difference(
        "conversions i64, u64 -> f16, bf16",
        "to f32 first, rounded twice; bf16 gets the integer's low bits",
        "round once",
        "cvt.rn.f16.s64, cvt.rn.bf16.u64, ...",
    ),
    Difference(
        "conversions float -> integer, out of range",
        "whatever the CPU's instruction does",
        "saturate, at 16 bits for i8 and u8, whose low bits are the result; NaN becomes 0, as a 64-bit integer or from "
        "f64 the largest power of two of the instruction's width",
        "cvt.rzi.s16.f32, cvt.rzi.u16.f32, cvt.rzi.s32.f32, cvt.rzi.u64.f32, ...",
    ),
    Difference(
        "integer division and remainder by zero",
        "0 and a warning",
        "not defined by PTX: -1 and x on an H200; INT_MIN // -1 is INT_MIN, INT_MIN % -1 is 0",
        "div.s32, rem.s32, ...",
        "0 in the interpreter of tile programs; the GPU's own in emitted code",
    ),
    Difference(
        "u8 // 1",
        "x",
        "255 on an H200 (Triton 3.6), whatever x is",
        "div.u16 of operands that are known to be below 256",
        "x",
    ),
    Difference(
        "unsigned division and remainder of 64 bits, mixed signs",
        "NumPy computes in f64 where one operand is signed",
        "both are unsigned",
        "div.u64, rem.u64",
    ),
    Difference(
        "shifts by the width and more",
        "the amount counts as it is",
        "the amount is unsigned and no more than the width: 0, or the sign. 64-bit amounts lose their upper half. LLVM "
        "and MLIR count such a shift as undefined, and `x >> x` becomes 0",
        "shl.b32, shr.s32, shr.u32, ...",
        "as compiled, but for 64-bit amounts of 2^32 and more, which count as they are",
    ),
    Difference(
        "max, min, clamp of zeros",
        "the first one or the second one",
        "0 is greater than -0",
        "max.f32, min.f32, max.NaN.f32, ...",
    ),
    Difference(
        "tl.argmax, tl.argmin, tl.max and tl.min with return_indices=True, of NaN and of zeros",
        "NaN is no element; an error if all are",
        "depends on the order of the elements in registers: a NaN is kept or dropped; of two zeros the one with the "
        "smaller index",
        "setp.gt.f32, setp.eq.f32, selp.b32, ...",
        "NaN is no element, as for tl.max, and index 0 if all are; of two zeros 0 with the smaller index",
    ),
    Difference(
        "tl.clamp with propagate_nan=ALL",
        "a NaN bound counts",
        "NaN if x is NaN; a NaN bound counts too",
        "max.NaN.f32, min.NaN.f32",
    ),
    Difference(
        "float remainder",
        "exact",
        "x - trunc(x / y) * y with one rounding each: wrong by up to y where x / y is rounded to the next integer, and "
        "without any digit from 2^24 on",
        "div.rn.f32, cvt.rzi.f32.f32, fma.rn.f32",
        "is exact",
    ),
    Difference(
        "a * b + c",
        "rounded twice",
        "one fma, unless enable_fp_fusion=False",
        "fma.rn.f32, fma.rn.bf16, fma.rn.f16x2",
        "of f32 either (twice in the interpreter of tile programs), of f16 and bf16 as compiled",
    ),
    Difference(
        "a / b, tl.exp, tl.exp2, tl.log, tl.log2, tl.sin, tl.cos, tl.erf, tl.sqrt, tl.rsqrt of f32",
        "rounded results of the CPU's library",
        "within a few ulps; tl.exp2, tl.sqrt, tl.rsqrt, tl.floor, tl.ceil, tl.sin and tl.erf read and give 0 for "
        "subnormal numbers",
        "div.full.f32, ex2.approx.ftz.f32, sqrt.approx.ftz.f32, rsqrt.approx.ftz.f32, cvt.rmi.ftz.f32.f32, ...",
        "within the same bounds; subnormal numbers as compiled for tl.exp2, tl.sqrt, tl.rsqrt, tl.floor and tl.ceil",
    ),
    Difference(
        "tl.dot of fp8 and bf16 operands, of f32 with tf32",
        "bits as integers (bf16), conversions as above (fp8), exact operands (tf32)",
        "exact products of the operands (of tf32: cut off to 10 bits), summed in the accumulator's type in an order of "
        "the hardware's",
        "wgmma.mma_async",
    ),
    Difference(
        "tl.dot_scaled",
        "computes in f32, with scales of type e4m3 (of blocks of 16) as if they were e8m0",
        "on Blackwell exact products of elements and scales, summed in f32 in an order of the hardware's",
        "tcgen05.mma.kind::mxf8f6f4.block_scale, kind::mxf4, kind::mxf4nvf4",
    ),
    Difference(
        "a second name of a value, in a loop: `d = c` before it, `d = c` and `c = c + 1` in it",
        "d is what c was when the last iteration began",
        "d is c as it was before the loop: Triton's frontend sees no assignment to d",
        "",
    ),
    Difference(
        "sums of f16 and bf16 tiles",
        "of f16 in f32, of bf16 of the bits as integers",
        "each addition is rounded to the type, in the order of a tree",
        "add.f16, add.bf16",
        "in f32, rounded once; products that are only summed are not rounded",
    ),
    Difference(
        "NaN as bits",
        "the CPU's payloads",
        "0x7fffffff, 0x7fff (f16, bf16), 0x7f (fp8)",
        "every instruction on floats",
        "no promise: a NaN is a NaN",
    ),
)


# ---------------------------------------------------------------- small floats as lists of the numbers they can be
@dataclass(frozen=True)
class Format:
    """A float of `bits` bits with a sign. numbers: of its non-negative finite codes 0, 1, 2, ..., ascending. infinity:
    its code, None: conversions saturate. nan: a code of NaN."""

    bits: int
    numbers: Array
    infinity: int | None
    nan: int

    @property
    def stored(self) -> Any:
        """The integer type of the bits."""
        return {8: np.uint8, 16: np.uint16}[self.bits]


def _format(exponent: int, mantissa: int, finite: int, infinity: int | None, nan: int) -> Format:
    codes = np.arange(finite)
    steps, power = codes & ((1 << mantissa) - 1), codes >> mantissa
    bias = (1 << (exponent - 1)) - 1
    significand = np.where(power > 0, steps + (1 << mantissa), steps).astype(np.float64)
    numbers = np.ldexp(significand, np.maximum(power, 1) - bias - mantissa)
    return Format(1 + exponent + mantissa, numbers, infinity, nan)


FORMATS: dict[str, Format] = {
    "fp16": _format(5, 10, 0x7C00, 0x7C00, 0x7FFF),
    "bf16": _format(8, 7, 0x7F80, 0x7F80, 0x7FFF),
    "fp8e5": _format(5, 2, 0x7C, None, 0x7F),
    "fp8e4nv": _format(4, 3, 0x7F, None, 0x7F),
}


@functools.cache
def _decoded(name: str) -> Array:
    """The number of every code, in float64."""
    form = FORMATS[name]
    half = np.full(1 << (form.bits - 1), np.nan)
    half[: len(form.numbers)] = form.numbers
    if name in ("fp16", "bf16", "fp8e5"):
        half[len(form.numbers)] = np.inf
    return np.concatenate([half, -half])


def decode(bits: Array, name: str) -> Array:
    """The numbers that the bits of a small float are, in float32, which holds them all."""
    return _decoded(name)[bits].astype(np.float32)


def encode(values: Array, name: str, *, towards_zero: bool = False) -> Array:
    """The bits of the small float nearest to each value (ties to even, or cut off); values are exact as longdouble."""
    form = FORMATS[name]
    exact = np.asarray(values, np.longdouble)
    size = np.abs(exact)
    numbers = form.numbers.astype(np.longdouble)
    lower = np.clip(np.searchsorted(numbers, np.nan_to_num(size, nan=0.0), side="right") - 1, 0, len(numbers) - 1)
    step = numbers[-1] - numbers[-2]
    after = np.append(numbers, numbers[-1] + step)[lower + 1]
    below, above = size - numbers[lower], after - size
    up = (below > above) | ((below == above) & (lower % 2 == 1))
    code = lower if towards_zero else lower + up
    overflow = len(numbers) - 1 if form.infinity is None else form.infinity
    code = np.where(code >= len(numbers), overflow, code)
    code = np.where(np.isinf(size), len(numbers) if towards_zero and name == "fp8e5" else overflow, code)
    code = np.where(np.isnan(exact), form.nan, code | np.where(np.signbit(exact), 1 << (form.bits - 1), 0))
    return code.astype(form.stored)


# ---------------------------------------------------------------- operations as PTX defines them
def largest(left: Array, right: Array, *, nan: bool, sign: int = 1) -> Array:
    """max (sign 1) or min (-1): of a number and NaN the number unless `nan`; 0 is greater than -0."""
    left, right = np.broadcast_arrays(left, right)
    greater = (left > right) if sign > 0 else (left < right)
    zeros = (left == 0) & (right == 0)
    negative = np.signbit(left) & np.signbit(right) if sign > 0 else np.signbit(left) | np.signbit(right)
    result = np.where(zeros, np.where(negative, -0.0, 0.0), np.where(greater, left, right)).astype(left.dtype)
    either, both = np.isnan(left) | np.isnan(right), np.isnan(left) & np.isnan(right)
    single = np.where(np.isnan(left), right, left)
    return np.where(both if not nan else either, left.dtype.type(np.nan), np.where(either, single, result))


def to_integer(values: Array, dtype: Any, *, from_double: bool) -> Array:
    """Towards zero, saturating; 8-bit results are the low bits of 16-bit ones."""
    wanted = np.dtype(dtype)
    width = max(16, wanted.itemsize * 8)
    wide = np.dtype(f"{'u' if wanted.kind == 'u' else ''}int{width}")
    info = np.iinfo(wide)
    whole = np.trunc(np.asarray(values, np.longdouble))
    odd = np.isnan(whole)
    low, high = whole <= info.min, whole >= info.max
    inside = np.where(odd | low | high, 0, whole)
    integers = inside.astype(wide)
    integers = np.where(high, info.max, np.where(low, info.min, integers)).astype(wide)
    strange = 1 << (width - 1) if from_double or width == 64 else 0
    return np.where(odd, np.array(strange, np.uint64).astype(wide), integers).astype(wanted)


def divide(left: Array, right: Array, *, remainder: bool) -> Array:
    """Integers of one type, towards zero; by zero: 0 (not defined)."""
    dtype = left.dtype
    pairs = np.frompyfunc(lambda a, b: _divide(int(a), int(b), remainder), 2, 1)(left, right)
    bits = dtype.itemsize * 8
    return np.asarray(np.asarray(pairs, object) & ((1 << bits) - 1)).astype(f"uint{bits}").view(dtype)


def _divide(left: int, right: int, remainder: bool) -> int:
    if right == 0:
        return 0
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return left - quotient * right if remainder else quotient


def shift(left: Array, right: Array, *, to: str) -> Array:
    """to: "left", "right". The amount is unsigned; what goes out of the width is gone."""
    bits = left.dtype.itemsize * 8
    amount = np.minimum(right.view(f"uint{bits}") if right.dtype.itemsize * 8 == bits else right, bits).astype(object)
    numbers = left.astype(object)
    moved = numbers << amount if to == "left" else numbers >> amount
    return np.asarray(moved & ((1 << bits) - 1)).astype(f"uint{bits}").view(left.dtype)


def flushed(values: Array) -> Array:
    """Subnormal f32 numbers as zeros of their sign."""
    if values.dtype != np.float32:
        return values
    return np.where(np.abs(values) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), values), values)


def in_double(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of f32 numbers, rounded once."""
    return lambda *x: np.asarray(function(*(np.asarray(one, np.float64) for one in x)), np.float32)


LIBDEVICE: dict[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tanh", "fabs")},
    **{name: getattr(np, name) for name in ("floor", "ceil")},
    **{name: in_double(getattr(np, name)) for name in ("log1p", "expm1", "log10", "tan", "sinh", "cosh", "cbrt")},
    "hypot": in_double(np.hypot),
    **{name: in_double(getattr(np, f"arc{name[1:]}")) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "exp10": in_double(lambda x: 10.0**x), "pow": in_double(np.power), "atan2": in_double(np.arctan2),
    "rint": lambda x: np.rint(flushed(x)), "trunc": lambda x: np.trunc(flushed(x)),
    "round": in_double(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf),
    "fma": lambda x, y, z: np.asarray(x, np.longdouble) * y + z,
    "fmax": functools.partial(largest, nan=False), "fmin": functools.partial(largest, nan=False, sign=-1),
}  # fmt: skip
"""Functions that Triton calls CUDA's library for."""


class CompiledArithmetic(interpreter.InterpreterBuilder):  # type: ignore[misc]
    """Triton's interpreter with the arithmetic of its compiled code."""

    # ---- conversions
    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        return self.convert(src, dst_type, None)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        return self.convert(src, dst_type, rounding_mode)

    def convert(self, src: Any, dst_type: Any, rounding: Any) -> Any:
        """Any conversion of numbers."""
        source, wanted = src.dtype.scalar, dst_type.scalar
        values = self.numbers(src)
        if wanted.name in ("bf16", "fp8e5", "fp8e4nv", "fp16"):
            exact = np.asarray(values, np.longdouble)
            bits = encode(exact, wanted.name, towards_zero=rounding == ir.ROUNDING_MODE.RTZ)
            data = bits.view(np.float16) if wanted.name == "fp16" else bits
        elif wanted.is_floating():
            with np.errstate(all="ignore"):
                data = np.asarray(values).astype(interpreter._get_np_dtype(wanted))
        elif source.is_floating() and not wanted.is_bool():
            data = to_integer(values, interpreter._get_np_dtype(wanted), from_double=source.name == "fp64")
        else:
            data = np.asarray(values).astype(interpreter._get_np_dtype(wanted))
        return interpreter.TensorHandle(data, wanted)

    def numbers(self, handle: Any) -> Array:
        """What a tile's elements are, in a type of NumPy."""
        name = handle.dtype.scalar.name
        return decode(handle.data, name) if name in ("bf16", "fp8e5", "fp8e4nv") else handle.data

    def tile(self, values: Array, like: Any) -> Any:
        """A tile of the type of `like`."""
        kind = like.dtype.scalar
        if kind.name == "bf16" and values.dtype.kind == "f":
            values = encode(values, "bf16")
        elif values.dtype != np.bool_ and values.dtype != like.data.dtype:
            values = values.astype(interpreter._get_np_dtype(kind))
        return interpreter.TensorHandle(values, kind)

    # ---- arithmetic
    def binary_op(self, lhs: Any, rhs: Any, op: Callable[[Array, Array], Array]) -> Any:
        with np.errstate(all="ignore"):
            made = self.tile(op(self.numbers(lhs), self.numbers(rhs)), lhs) if lhs.dtype.scalar.name == "bf16" else (
                super().binary_op(lhs, rhs, op)
            )  # fmt: skip
        return interpreter.TensorHandle(made.data, tl.int1) if made.data.dtype == np.bool_ else made

    def unary_op(self, arg: Any, op: Callable[[Array], Array]) -> Any:
        with np.errstate(all="ignore"):
            return super().unary_op(arg, op)

    def create_fneg(self, arg: Any) -> Any:
        bits = arg.data.dtype.itemsize * 8
        turned = arg.data.view(f"uint{bits}") ^ np.array(1 << (bits - 1), f"uint{bits}")
        return interpreter.TensorHandle(turned.view(arg.data.dtype), arg.dtype.scalar)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        if z.dtype.scalar.name == "bf16":
            with np.errstate(all="ignore"):
                product = self.numbers(x).astype(np.longdouble) * self.numbers(y)
                return self.tile(product + self.numbers(z), z)  # 16 + 8 bits, exact enough in 64
        with np.errstate(all="ignore"):
            return super().create_fma(x, y, z)

    def create_maxnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, functools.partial(largest, nan=False))

    def create_minnumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, functools.partial(largest, nan=False, sign=-1))

    def create_maximumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, functools.partial(largest, nan=True))

    def create_minimumf(self, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, functools.partial(largest, nan=True, sign=-1))

    def create_clampf(self, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        if propagate_nans == ir.PROPAGATE_NAN.NONE:
            return self.create_minnumf(self.create_maxnumf(arg, lo), hi)
        return self.create_minimumf(self.create_maximumf(arg, lo), hi)

    def create_idiv(self, lhs: Any, rhs: Any) -> Any:
        return interpreter.TensorHandle(divide(lhs.data, rhs.data, remainder=False), lhs.dtype.scalar)

    def create_srem(self, lhs: Any, rhs: Any) -> Any:
        return interpreter.TensorHandle(divide(lhs.data, rhs.data, remainder=True), lhs.dtype.scalar)

    create_urem = create_srem

    def create_shl(self, lhs: Any, rhs: Any) -> Any:
        return interpreter.TensorHandle(shift(lhs.data, rhs.data, to="left"), lhs.dtype.scalar)

    def create_lshr(self, lhs: Any, rhs: Any) -> Any:
        unsigned = lhs.data.view(f"uint{lhs.data.dtype.itemsize * 8}")
        moved = shift(unsigned, rhs.data, to="right").view(lhs.data.dtype)
        return interpreter.TensorHandle(moved, lhs.dtype.scalar)

    def create_ashr(self, lhs: Any, rhs: Any) -> Any:
        signed = lhs.data.view(f"int{lhs.data.dtype.itemsize * 8}")
        moved = shift(signed, rhs.data, to="right").view(lhs.data.dtype)
        return interpreter.TensorHandle(moved, lhs.dtype.scalar)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Callable[..., Array]) -> Any:
        with np.errstate(all="ignore"):
            return super().ternary_op(lhs, rhs, other, op)

    # ---- functions whose instructions flush subnormal numbers
    def create_exp2(self, arg: Any) -> Any:
        return self.unary_op(arg, lambda x: flushed(np.exp2(flushed(x))))

    def create_sqrt(self, arg: Any) -> Any:
        return self.unary_op(arg, lambda x: np.sqrt(flushed(x)))

    def create_rsqrt(self, arg: Any) -> Any:
        return self.unary_op(arg, lambda x: 1 / np.sqrt(flushed(x)))

    def create_floor(self, arg: Any) -> Any:
        return self.unary_op(arg, lambda x: np.floor(flushed(x)))

    def create_ceil(self, arg: Any) -> Any:
        return self.unary_op(arg, lambda x: np.ceil(flushed(x)))

    # ---- functions of libdevice, which Triton's interpreter does not know
    def create_extern_elementwise(
        self, lib_name: str, lib_path: str, symbol: str, arguments: Any, result: Any, is_pure: bool
    ) -> Any:
        name = symbol.removeprefix("__nv_").removeprefix("fast_")
        function = LIBDEVICE.get(name) or LIBDEVICE[name.removesuffix("f")]
        with np.errstate(all="ignore"):
            made = function(*(self.numbers(interpreter.TensorHandle(a.data, a.dtype)) for a in arguments))
        return interpreter.TensorHandle(np.asarray(made, arguments[0].data.dtype), arguments[0].dtype.scalar)

    # ---- reductions through descriptors, which Triton's interpreter does not know
    def create_descriptor_reduce(self, kind: Any, desc: Any, value: Any, indices: Any) -> None:
        addresses, mask = desc.materialize_pointers(indices)
        before = self.create_masked_load(addresses, mask, None, None, False)
        combine = {
            ir.DESCRIPTOR_REDUCE_KIND.ADD: np.add, ir.DESCRIPTOR_REDUCE_KIND.MIN: np.minimum,
            ir.DESCRIPTOR_REDUCE_KIND.MAX: np.maximum, ir.DESCRIPTOR_REDUCE_KIND.AND: np.bitwise_and,
            ir.DESCRIPTOR_REDUCE_KIND.OR: np.bitwise_or, ir.DESCRIPTOR_REDUCE_KIND.XOR: np.bitwise_xor,
        }[kind]  # fmt: skip
        self.create_masked_store(addresses, self.binary_op(before, value, combine), mask, None)

    # ---- products
    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        left, right, acc = self.numbers(a), self.numbers(b), self.numbers(d)
        if left.dtype.kind == "f":
            with np.errstate(all="ignore"):
                product = np.matmul(left.astype(np.float64), right.astype(np.float64)) + acc.astype(np.float64)
                return self.tile(product.astype(acc.dtype), d)
        return interpreter.TensorHandle(np.matmul(left, right, dtype=acc.dtype) + acc, d.dtype.scalar)


class CompiledReductions(interpreter.ReduceOps):  # type: ignore[misc]
    """Reductions by max and min, of floats, and sums of bf16."""

    def sum(self, input: Any) -> Any:
        if input.dtype.scalar.name != "bf16":
            return super().sum(input)
        total = np.sum(BUILDER.numbers(input.handle), axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(encode(total, "bf16"), input.dtype)

    def min_max(self, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        data = input.handle.data
        if data.dtype.kind != "f" or idx_reduce_op is not None:
            return super().min_max(input, val_reduce_op, idx_reduce_op)
        whole = data if self.axis is not None else data.flatten()
        sign = 1 if val_reduce_op is np.nanmax else -1
        parts = np.moveaxis(whole, self.axis or 0, 0)
        found = functools.reduce(functools.partial(largest, nan=False, sign=sign), parts)
        if self.keep_dims:
            found = np.expand_dims(found, self.axis or 0) if self.axis is not None else found.reshape((1,) * data.ndim)
        return self.to_tensor(found, input.dtype)


class CompiledScans(interpreter.ScanOps):  # type: ignore[misc]
    """Running sums of bf16."""

    def cumsum(self, input: Any) -> Any:
        if input.dtype.scalar.name != "bf16":
            return super().cumsum(input)
        total = np.cumsum(BUILDER.numbers(input.handle), axis=self.axis)
        return [self.to_tensor(encode(total, "bf16"), input.dtype)]


BUILDER = CompiledArithmetic()
SEMANTIC = tl.semantic.TritonSemantic(BUILDER)


@contextmanager
def compiled_arithmetic() -> Iterator[None]:
    """Triton's interpreter computes as its compiled code does."""
    retained = {name: getattr(interpreter, name) for name in (
        "interpreter_builder", "interpreter_semantic", "ReduceOps", "ScanOps",
    )}  # fmt: skip
    interpreter.interpreter_builder = BUILDER
    interpreter.interpreter_semantic = SEMANTIC
    interpreter.ReduceOps, interpreter.ScanOps = CompiledReductions, CompiledScans
    try:
        yield
    finally:
        for name, value in retained.items():
            setattr(interpreter, name, value)
