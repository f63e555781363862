"""What the operations of the vocabulary do to arrays: the one meaning that both programs are run with.

It is that of the code that Triton compiles, as far as PTX defines it; `docs/operations.md` says where it is
less or more exact. Floats of 16 and 8 bits are held as float32 that the type can hold; every operation rounds its
result to its element type (`twill.tile.interpret.conversions`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from twill.ptx import inline
from twill.tile.interpret.arrays import np
from twill.tile.interpret.conversions import HELD, Array, bitcast, cast, from_bits, rounded, to_bits, unsigned
from twill.tile.vocabulary import MINUS, SLACK

__all__ = ["HELD", "Array", "apply", "reduce", "rounded", "scan"]

_erf, _erfc = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)
_TINY = np.finfo(np.float32).tiny


def _flushed(values: Array) -> Array:
    """Subnormal numbers of float32 as zeros of their sign: what instructions with .ftz read and write."""
    array = np.asarray(values)
    if array.dtype != np.float32:
        return array
    small = np.abs(array) < _TINY
    return np.where(small, np.copysign(np.float32(0), array), array) if small.any() else array


def _math(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of Python's floats, in the type of its operand."""
    return lambda x: np.asarray(function(x), np.asarray(x).dtype)


def _double(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of floats, computed in double precision."""
    return lambda *x: np.asarray(function(*(np.asarray(one, np.float64) for one in x)), np.result_type(*x))


def _half_away(x: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole), x).astype(
        np.asarray(x).dtype
    )


# Functions of CUDA's library -> what NumPy calls them.
_LIBRARY = {
    **{kind: kind for kind in ("log1p", "expm1", "log10", "tan", "sinh", "cosh", "cbrt")},
    **{kind: f"arc{kind[1:]}" for kind in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}

EXACT = ("cast", "bitcast", "select", "update", "inline_asm")  # rounded already, or one of the operands as it is

UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": lambda x: _flushed(np.exp2(_flushed(x))), "log": np.log, "log2": np.log2,
    "sqrt": lambda x: np.sqrt(_flushed(x)), "rsqrt": lambda x: 1 / np.sqrt(_flushed(x)), "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "floor": lambda x: np.floor(_flushed(x)), "ceil": lambda x: np.ceil(_flushed(x)), "abs": np.abs,
    "trunc": lambda x: np.trunc(_flushed(x)), "rint": lambda x: np.rint(_flushed(x)), "round": _half_away,
    **{kind: _double(getattr(np, name)) for kind, name in _LIBRARY.items()},
    "exp10": _double(lambda x: np.power(10.0, x)), "neg": np.negative, "erf": _math(_erf), "erfc": _math(_erfc),
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
    "pow": _double(np.power), "atan2": _double(np.arctan2), "hypot": _double(np.hypot),
}  # fmt: skip
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def apply(
    kind: str, operands: Sequence[Array], element: str, attributes: Mapping[str, Any], sources: Sequence[str]
) -> Array:
    """An elementwise operation. element: of the result. sources: of the operands. KeyError: no such kind."""
    with np.errstate(all="ignore"):
        result = _apply(kind, operands, element, attributes, sources)
    if kind in EXACT:
        return result
    return rounded(result, element)


def _apply(
    kind: str, operands: Sequence[Array], element: str, attributes: Mapping[str, Any], sources: Sequence[str]
) -> Array:
    signed = bool(attributes.get("signed", 1))
    match kind:
        case "cast":
            return cast(operands[0], element, attributes, sources[0])
        case "bitcast":
            return bitcast(operands[0], sources[0], element)
        case "inline_asm":
            return _assembly(operands, element, attributes, sources)
        case "select":
            return np.where(*operands)
        case "update":
            return operands[1] if operands[2] else operands[0]
        case "compare":
            return _compare(operands[0], operands[1], attributes)
        case "div" | "rem":
            return _divide(kind, operands[0], operands[1], signed)
        case "fma":
            return _fma(*_signed(operands, attributes))
        case "max" | "min":
            return _extreme(kind, operands[0], operands[1], attributes)
        case "clamp":
            low = _extreme("max", operands[0], operands[1], attributes)
            return _extreme("min", low, operands[2], attributes)
        case "shr" if not signed:
            return np.right_shift(*map(unsigned, operands)).astype(np.asarray(operands[0]).dtype)
        case "add" | "sub" | "mul" if element == "i1":  # modulo 2
            return np.bitwise_and(*operands) if kind == "mul" else np.bitwise_xor(*operands)
        case "sqrt" if attributes.get("rounding") == "rn":
            return np.sqrt(operands[0])
    if kind == "erfc":  # of a float
        return UNARY[kind](operands[0]) * np.float32(attributes.get("factor", 1.0))
    if kind in UNARY:
        return UNARY[kind](operands[0])
    return BINARY[kind](*operands)


def _assembly(operands: Sequence[Array], element: str, attributes: Mapping[str, Any], sources: Sequence[str]) -> Array:
    """What a text of PTX makes of the operands' bits."""
    spread = np.broadcast_arrays(*operands)
    tiles = [to_bits(tile, source).reshape(-1) for tile, source in zip(spread, sources, strict=True)]
    found = inline.evaluate(inline.of_attributes(attributes), tiles)[int(attributes["output"])]
    return from_bits(found.reshape(spread[0].shape), element)


def _signed(operands: Sequence[Array], attributes: Mapping[str, Any]) -> Sequence[Array]:
    """Of an fma: with the sign of what is subtracted turned, which is exact."""
    a, b, c = operands
    match attributes.get(MINUS):
        case "product":
            return np.negative(a), b, c
        case "summand":
            return a, b, np.negative(c)
    return operands


def _fma(a: Array, b: Array, c: Array) -> Array:
    """a·b + c of floats, to be rounded once; integers wrap round."""
    dtype = np.result_type(a, b, c)
    if dtype.kind != "f":
        return a * b + c
    if dtype == np.float64:
        return _fma_double(a, b, c)
    product, summand = np.asarray(a, np.float64) * b, np.asarray(c, np.float64)  # the product is exact
    total = product + summand
    # What the sum was rounded by (Knuth's TwoSum); if anything, the sum is made odd: see `conversions.rounded`.
    part = total - product
    error = (product - (total - part)) + (summand - part)
    inexact = (error != 0) & np.isfinite(total) & np.isfinite(error)
    if not np.any(inexact):
        return total
    bits = np.ascontiguousarray(total).view(np.int64).reshape(np.shape(total))
    towards = np.where((error > 0) == (total > 0), bits, bits - 1)  # cut off, then odd
    return np.where(inexact, (towards | 1).view(np.float64), total)


def _exact_fma(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:  # the sign of zero is that of the usual sum
        return a * b + c if a * b == 0 else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


_exactly = np.frompyfunc(_exact_fma, 3, 1)
_SPLIT = 2.0**27 + 1  # cuts an f64 into two halves whose products are exact (Dekker, Veltkamp)
_PLAIN = 2.0**-300, 2.0**300  # magnitudes whose products and errors neither overflow nor vanish
_DOUBT = 2.0**-40  # of what is added last: its rounding is known where so much more or less gives the same


def _fma_double(a: Array, b: Array, c: Array) -> Array:
    """a·b + c of f64, rounded once: by error-free sums and products, exactly where those leave a doubt."""
    a, b, c = (np.array(one, np.float64) for one in np.broadcast_arrays(a, b, c))
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    lost = a_low * b_low - (product - a_high * b_high - a_low * b_high - a_high * b_low)
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part) + lost
    result = np.array(total + rest)
    sure = (result == total + rest * (1 + _DOUBT)) & (result == total + rest * (1 - _DOUBT))
    for one in (a, b, c, total):
        sure &= (np.abs(one) > _PLAIN[0]) & (np.abs(one) < _PLAIN[1])
    if not np.all(sure):
        result[~sure] = _exactly(a[~sure], b[~sure], c[~sure])
    return result


def _halves(x: Array) -> tuple[Array, Array]:
    """The upper half of the digits of f64, and the rest."""
    wide = x * _SPLIT
    high = wide - (wide - x)
    return high, x - high


def reduce(operand: Array, axis: int, combine: str, element: str, attributes: Mapping[str, Any]) -> Array:
    """The tile without `axis`, combined along it. KeyError: no such combine."""
    if combine not in ("max", "min"):
        with np.errstate(all="ignore"):
            return rounded(_step(combine, element).reduce(operand, axis=axis), element)
    choose = _choice(combine, operand.dtype, attributes)
    if not attributes.get("signed", 1):
        return choose.reduce(unsigned(operand), axis=axis).astype(operand.dtype)
    found = choose.reduce(_quiet(operand), axis=axis)
    if operand.dtype.kind == "f" and np.any(found == 0):  # zeros have an order too: 0 is greater than -0
        wanted = np.signbit(operand) == (combine == "min")
        some = np.any((operand == 0) & wanted, axis=axis) == (combine == "max")
        found = np.where(found == 0, np.where(some, 0.0, -0.0).astype(operand.dtype), found)
    return rounded(found, element)


def scan(operand: Array, element: str, attributes: Mapping[str, Any]) -> Array:
    """The tile with everything before an element combined into it; attributes as of the operation."""
    axis, combine = attributes["axis"], attributes["combine"]
    ordered = np.flip(operand, axis) if attributes.get("reverse") else operand
    if combine in ("max", "min"):
        parts = list(np.moveaxis(ordered, axis, 0))
        for number in range(1, len(parts)):
            parts[number] = _extreme(combine, parts[number - 1], parts[number], attributes)
        done = np.moveaxis(np.stack(parts), 0, axis)
    else:
        with np.errstate(all="ignore"):
            done = rounded(_step(combine, element).accumulate(ordered, axis=axis), element)
    return np.flip(done, axis) if attributes.get("reverse") else done


def _step(combine: str, element: str) -> Any:
    """NumPy's function of two elements that a reduction repeats. KeyError: no such combine."""
    if element == "i1":  # modulo 2
        combine = {"add": "xor", "mul": "and"}.get(combine, combine)
    return BINARY[combine]


def _quiet(values: Array) -> Array:
    """NaNs as quiet ones: of a number and a signaling NaN a CPU's maximum is NaN, the GPU's the number."""
    if values.dtype.kind != "f" or not np.any(np.isnan(values)):
        return values
    return np.where(np.isnan(values), values.dtype.type(np.nan), values)


def _choice(kind: str, dtype: Any, attributes: Mapping[str, Any]) -> Any:
    """NumPy's function for the larger or smaller of two; of a number and NaN the number unless NaN is to propagate."""
    if dtype.kind == "f" and not attributes.get("propagate_nan"):
        return np.fmax if kind == "max" else np.fmin
    return np.maximum if kind == "max" else np.minimum


def _extreme(kind: str, left: Array, right: Array, attributes: Mapping[str, Any]) -> Array:
    left, right = np.asarray(left), np.asarray(right)
    if SLACK in attributes:
        return np.where(right > left + np.asarray(attributes[SLACK], left.dtype), right, left)
    choose = _choice(kind, left.dtype, attributes)
    if left.dtype.kind != "f":
        if attributes.get("signed", 1):
            return choose(left, right)
        return choose(unsigned(left), unsigned(right)).astype(left.dtype)
    found = choose(_quiet(left), _quiet(right))
    if np.any(found == 0):  # zeros have an order too: 0 is greater than -0
        ordered = left + right if kind == "max" else -(-left - right)
        found = np.where((left == 0) & (right == 0), ordered, found)
    return found


def _compare(left: Array, right: Array, attributes: Mapping[str, Any]) -> Array:
    if not attributes.get("signed", 1):
        left, right = unsigned(left), unsigned(right)
    answer = COMPARE[attributes["predicate"]](left, right)
    if "unordered" in attributes:
        return np.where(np.isnan(left) | np.isnan(right), bool(attributes["unordered"]), answer)
    return answer


def _divide(kind: str, left: Array, right: Array, signed: bool) -> Array:
    """Floats as usual (the remainder has the dividend's sign), integers towards zero; by zero: 0."""
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype.kind == "f":
        return left / right if kind == "div" else np.fmod(left, right)
    dtype = left.dtype
    if not signed:
        left, right = unsigned(left), unsigned(right)
    safe = np.where(right == 0, 1, right)
    remainder = np.fmod(left, safe)
    if kind == "rem":
        return remainder.astype(dtype)
    return np.where(right == 0, 0, (left - remainder) // safe).astype(dtype)
