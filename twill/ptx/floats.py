"""Float instructions: f32 and f64 rounded as the instruction says, packed and single halves, fast functions.

f32 is computed by IEEE 754 arithmetic or, for a fused multiply-add and directed roundings, through float64 rounded to
odd, from which every rounding to fewer bits is the right one (Boldo and Melquiond, "Emulation of a FMA and correctly
rounded sums", 2008). A NaN that arithmetic makes is 0x7fffffff.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from twill.ptx.approximate import GROSS, approximate, gross
from twill.ptx.arrays import every, is_number, some
from twill.ptx.formats import decode, encode
from twill.ptx.integers import applied
from twill.ptx.program import PtxInstruction
from twill.ptx.registers import Operands, types_of, unsupported
from twill.ptx.step import Array, Step

Function = Callable[..., Array]
NAN = np.uint32(0x7FFFFFFF).view(np.float32)
_NANS: dict[Any, Any] = {
    np.dtype(np.float32): NAN,
    np.dtype(np.float64): np.uint64(0x7FF8000000000000).view(np.float64),
}
_TINY = np.float32(2.0**-126)
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_APPROXIMATE = {"ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh"}


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of a float instruction; None if it is none."""
    types = types_of(instruction)
    if instruction.name not in _COUNT or not types:
        return None
    type = types[-1]
    if type not in ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"):
        return None
    count = _COUNT[instruction.name]
    function = function_of(instruction, type)
    if "sat" in instruction.modifiers:
        inner = function
        function = lambda *given: saturated(inner(*given))  # noqa: E731
    if type in ("f32", "f64"):
        return applied(operands, instruction, type, (type,) * count, function)
    packed = type.endswith("x2")
    return applied(operands, instruction, type, (type,) * count, on_halves(function, type.removesuffix("x2"), packed))


_COUNT = {
    "add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3, "div": 2, "min": 2, "max": 2, "abs": 1, "neg": 1, "rcp": 1,
    "sqrt": 1, "rsqrt": 1, "ex2": 1, "lg2": 1, "sin": 1, "cos": 1, "tanh": 1, "copysign": 2,
}  # fmt: skip


def function_of(instruction: PtxInstruction, type: str) -> Function:
    """On float32 (halves too, which are rounded behind it) or float64."""
    name, modifiers = instruction.name, set(instruction.modifiers)
    rounding = next((r for r in _ROUNDINGS if r in modifiers), "rn")
    ftz = "ftz" in modifiers
    if name in ("abs", "neg"):
        function: Function = np.abs if name == "abs" else np.negative
        return flushing(function) if ftz else function
    if name == "copysign":
        return lambda a, b: np.copysign(b, a)
    if name in ("min", "max"):
        return _extreme(name == "max", "NaN" in modifiers, ftz, "abs" in modifiers, instruction)
    if name in _APPROXIMATE and ("approx" in modifiers or type in ("f16", "bf16", "f16x2", "bf16x2")):
        if type == "f64":
            return canonical(_double_approximation(instruction, name, ftz))
        return lambda a: approximate(name, a, ftz)
    if name in ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt"):
        raise unsupported(instruction)
    if type == "f64":
        return _double(instruction, name, rounding)
    if name == "div" and ("approx" in modifiers or "full" in modifiers):
        function = _approximate_division if "approx" in modifiers else np.divide
    elif type != "f32":
        function = _WIDE[name]
        return function
    elif rounding == "rn":
        function = canonical(_NEAREST[name])
        return flushing(function) if ftz else function
    else:
        odd = _ODD[name]
        function = lambda *given: directed(odd(*given), rounding)  # noqa: E731
    function = canonical(function)
    return flushing(function) if ftz else function


def canonical(function: Function) -> Function:
    """Every NaN of the result is the one that the hardware makes."""

    def run(*given: Array) -> Array:
        result = function(*given)
        if is_number(result):
            return result
        return np.where(np.isnan(result), _NANS[result.dtype], result)

    return run


def flush(a: Array) -> Array:
    """Subnormal f32 become zeros with their sign."""
    small = np.abs(a) < _TINY
    return np.where(small, np.copysign(np.float32(0), a), a) if some(small) else a


def flushing(function: Function) -> Function:
    """`.ftz`: of operands and result."""
    return lambda *given: flush(function(*map(flush, given)))


def saturated(a: Array) -> Array:
    """`.sat`: 0 to 1; NaN becomes 0."""
    return np.where(np.isnan(a), a.dtype.type(0), np.clip(a, a.dtype.type(0), a.dtype.type(1)) + a.dtype.type(0))


# ---------------------------------------------------------------- exactly, rounded once


def odd_sum(a: Array, b: Array) -> Array:
    """a + b of float64, rounded to odd: inexact results have their last bit set."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    inexact = (error != 0) & np.isfinite(total)
    if not some(inexact):
        return total
    bits = total.view(np.int64)
    even = inexact & (bits & 1 == 0)
    # One step towards the exact value; of a number whose last bit is set already, none is needed.
    away = (error > 0) == (total > 0)
    return np.where(even, bits + np.where(away, 1, -1), bits).view(np.float64)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of float32, rounded once to nearest."""
    product = a.astype(np.float64) * b.astype(np.float64)
    total = product + c
    near = total.astype(np.float32)
    # Rounding twice can differ only where the sum of float64 lies half-way between two float32 and was rounded.
    if every(total.view(np.uint64) & np.uint64(0x0FFFFFFF)):
        return near
    return odd_sum(product, np.broadcast_to(c.astype(np.float64), total.shape)).astype(np.float32)


def directed(exact: Array, rounding: str) -> Array:
    """A float64 that is rounded to odd, as float32."""
    bits = encode(exact, "f32", rounding)
    return np.where(np.isnan(exact), NAN, bits.view(np.float32))


def _odd_product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) * b.astype(np.float64)  # exact


def _odd_quotient(a: Array, b: Array) -> Array:
    wide, by = np.broadcast_arrays(a.astype(np.float64), b.astype(np.float64))
    return _odd_by(wide / by, lambda q: odd_residual(q, by, wide))


def _odd_root(a: Array) -> Array:
    wide = a.astype(np.float64)
    return _odd_by(np.sqrt(wide), lambda q: odd_residual(q, q, wide))


def odd_residual(q: Array, by: Array, wide: Array) -> Array:
    """The sign of wide - q * by, by exact arithmetic where all are finite."""
    signs = [
        (Fraction(w) > Fraction(x) * Fraction(y)) - (Fraction(w) < Fraction(x) * Fraction(y))
        if all(map(math.isfinite, (w, x, y))) else 0
        for w, x, y in zip(wide.tolist(), q.tolist(), by.tolist(), strict=True)
    ]  # fmt: skip
    # Of a negative divisor the quotient errs the other way.
    return np.array(signs) * np.where(by < 0, -1, 1)


def _odd_by(q: Array, residual: Callable[[Array], Array]) -> Array:
    sign = residual(q)
    bits = q.view(np.int64)
    even = (sign != 0) & (bits & 1 == 0)
    away = (sign > 0) == (q > 0)
    return np.where(even, bits + np.where(away, 1, -1), bits).view(np.float64)


_NEAREST: dict[str, Function] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "fma": fused, "mad": fused, "div": np.divide,
    "rcp": lambda a: np.float32(1) / a, "sqrt": np.sqrt,
}  # fmt: skip
_ODD: dict[str, Function] = {
    "add": lambda a, b: odd_sum(*np.broadcast_arrays(a.astype(np.float64), b.astype(np.float64))),
    "sub": lambda a, b: odd_sum(*np.broadcast_arrays(a.astype(np.float64), -b.astype(np.float64))),
    "mul": _odd_product,
    "fma": lambda a, b, c: odd_sum(*np.broadcast_arrays(_odd_product(a, b), c.astype(np.float64))),
    "mad": lambda a, b, c: odd_sum(*np.broadcast_arrays(_odd_product(a, b), c.astype(np.float64))),
    "div": _odd_quotient,
    "rcp": lambda a: _odd_quotient(np.ones_like(a), a),
    "sqrt": _odd_root,
}
_WIDE: dict[str, Function] = {
    "add": lambda a, b: a.astype(np.float64) + b.astype(np.float64),
    "sub": lambda a, b: a.astype(np.float64) - b.astype(np.float64),
    "mul": _odd_product,
    "fma": _ODD["fma"],
}
"""Of halves, before they are rounded: a sum of two float64 of 11 bits is exact, or far from half-way."""


def _approximate_division(a: Array, b: Array) -> Array:
    """PTX ISA, "div": beyond 2**126 the quotient is 0, or NaN of an infinity."""
    quotient = a / b
    large = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    if not some(large):
        return quotient
    return np.where(large, np.where(np.isinf(a), NAN, np.copysign(np.float32(0), quotient)), quotient)


def _extreme(largest: bool, propagates: bool, ftz: bool, magnitudes: bool, instruction: PtxInstruction) -> Function:
    if magnitudes:
        raise unsupported(instruction)
    function = {(True, True): np.maximum, (True, False): np.fmax, (False, True): np.minimum, (False, False): np.fmin}[
        largest, propagates
    ]

    def run(a: Array, b: Array) -> Array:
        result = function(a, b)
        zero = result == 0
        if some(zero):  # +0 is larger than -0
            both = zero & (a == b)
            signed = a + b if largest else -(-a - b)
            result = np.where(both, signed, result)
        return result

    whole = canonical(run)
    return flushing(whole) if ftz else whole


# ---------------------------------------------------------------- other widths


def _double(instruction: PtxInstruction, name: str, rounding: str) -> Function:
    if rounding != "rn" or "approx" in instruction.modifiers:
        raise unsupported(instruction, "f64 is rounded to nearest only")
    if name in ("fma", "mad"):
        return fused_double
    plain: dict[str, Any] = {**_NEAREST, "rcp": lambda a: np.float64(1) / a}
    found: Function = plain[name]
    return found


def _double_approximation(instruction: PtxInstruction, name: str, ftz: bool) -> Function:
    """Fast functions of f64: gross ones (`.ftz`), from which libraries iterate, and the reciprocal root."""
    if name in GROSS and ftz:
        return lambda a: gross(name, a)
    if name == "rsqrt":
        return lambda a: 1.0 / np.sqrt(a)
    raise unsupported(instruction)


def fused_double(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of float64, rounded once."""
    rows = zip(*(x.tolist() for x in np.broadcast_arrays(a, b, c)), strict=True)
    return np.array([_fused(x, y, z) for x, y, z in rows], np.float64)


def _fused(x: float, y: float, z: float) -> float:
    if not all(map(math.isfinite, (x, y, z))):
        return x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if not exact:
        return x * y + z  # the sign of a zero
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def on_halves(function: Function, kind: str, packed: bool) -> Function:
    """The function on f16 or bf16, one or two to a register, rounded to nearest."""

    def single(*given: Array) -> Array:
        result = function(*(decode(part, kind).astype(np.float32) for part in given))
        return encode(result, kind)

    if not packed:
        return single

    def both(*given: Array) -> Array:
        halves = [np.ascontiguousarray(part).view(np.uint16).reshape(-1, 2) for part in given]
        low, high = (single(*(half[:, side] for half in halves)) for side in (0, 1))
        return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)

    return both
