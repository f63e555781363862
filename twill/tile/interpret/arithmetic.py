"""What the operations of the vocabulary do to arrays: the one meaning that both programs are run with.

Floats of 16 and 8 bits are held as float32 that the type can hold; every operation rounds its result to its element
type. f8e4m3 has no infinities and a largest number of 448, f8e5m2 of 57344: conversions to them saturate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twill.tile.interpret.arrays import np
from twill.tile.vocabulary import SLACK

Array = Any  # np.ndarray or a NumPy scalar

HELD: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float32, "bf16": np.float32, "f8e4m3": np.float32,
    "f8e5m2": np.float32, "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip

_UNSIGNED = {np.dtype(np.int8): np.uint8, np.dtype(np.int16): np.uint16, np.dtype(np.int32): np.uint32,
             np.dtype(np.int64): np.uint64}  # fmt: skip

_erf, _erfc = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)

UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "abs": np.abs, "neg": np.negative,
    "rsqrt": lambda x: 1 / np.sqrt(x), "erf": lambda x: np.asarray(_erf(x), np.float32),
    "erfc": lambda x: np.asarray(_erfc(x), np.float32),
}  # fmt: skip
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def rounded(values: Array, element: str, *, towards_zero: bool = False) -> Array:
    """The values as an array that holds `element`, rounded to nearest even unless `towards_zero`."""
    match element:
        case "bf16":
            return _bf16(values, towards_zero)
        case "f16":
            return _f16(values, towards_zero)
        case "f8e4m3":
            return _small_float(values, mantissa=3, least=-6, largest=448.0)
        case "f8e5m2":
            return _small_float(values, mantissa=2, least=-14, largest=57344.0)
    return np.asarray(values).astype(HELD[element], copy=False)


def _bf16(values: Array, towards_zero: bool) -> Array:
    exact = np.ascontiguousarray(values, np.float32)
    bits = exact.view(np.uint32)
    if not towards_zero:
        bits = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
    kept = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(exact), np.float32(np.nan), kept).reshape(np.shape(values))


def _f16(values: Array, towards_zero: bool) -> Array:
    exact = np.asarray(values, np.float32)
    near = exact.astype(np.float16)
    if towards_zero:
        beyond = np.abs(near.astype(np.float32)) > np.abs(exact)
        near = np.where(beyond, np.nextafter(near, np.float16(0)), near)
    return near.astype(np.float32)


def _small_float(values: Array, mantissa: int, least: int, largest: float) -> Array:
    """Nearest even with `mantissa` bits behind the point; exponents below `least` are subnormal."""
    exact = np.asarray(values, np.float32)
    _, exponent = np.frexp(exact)
    grain = np.exp2((np.maximum(exponent - 1, least) - mantissa).astype(np.float32))
    near = np.rint(exact / grain) * grain
    return np.where(np.isnan(exact), exact, np.clip(near, -largest, largest)).astype(np.float32)


def apply(
    kind: str, operands: Sequence[Array], element: str, attributes: Mapping[str, Any], sources: Sequence[str]
) -> Array:
    """An elementwise operation. element: of the result. sources: of the operands. KeyError: no such kind."""
    with np.errstate(all="ignore"):
        result = _apply(kind, operands, element, attributes, sources)
    if kind in ("cast", "bitcast"):
        return result
    return rounded(result, element)


def _apply(
    kind: str, operands: Sequence[Array], element: str, attributes: Mapping[str, Any], sources: Sequence[str]
) -> Array:
    signed = bool(attributes.get("signed", 1))
    match kind:
        case "cast":
            return _cast(operands[0], element, attributes, sources[0])
        case "bitcast":
            return _decode(_encode(operands[0], sources[0]), element)
        case "select":
            return np.where(*operands)
        case "amend":
            return operands[1] if operands[2] else operands[0]
        case "compare":
            return _compare(operands[0], operands[1], attributes)
        case "div" | "rem":
            return _divide(kind, operands[0], operands[1], signed)
        case "fma":
            return operands[0] * operands[1] + operands[2]
        case "max" | "min":
            return _extreme(kind, operands[0], operands[1], attributes)
        case "clamp":
            low = _extreme("max", operands[0], operands[1], attributes)
            return _extreme("min", low, operands[2], attributes)
        case "shr" if not signed:
            return np.right_shift(*map(_unsigned, operands)).astype(np.asarray(operands[0]).dtype)
        case "sub" | "neg" if element == "i1":
            return np.bitwise_xor(*operands) if kind == "sub" else operands[0]
    if kind == "erfc":  # of a float
        return UNARY[kind](operands[0]) * np.float32(attributes.get("factor", 1.0))
    if kind in UNARY:
        return UNARY[kind](operands[0])
    return BINARY[kind](*operands)


def reduce(operand: Array, axis: int, combine: str, element: str, attributes: Mapping[str, Any]) -> Array:
    """The tile without `axis`, combined along it. KeyError: no such combine."""
    if combine in ("max", "min"):
        whole = attributes.get("propagate_nan") or not np.issubdtype(operand.dtype, np.floating)
        names = {"max": np.maximum if whole else np.fmax, "min": np.minimum if whole else np.fmin}
        if not attributes.get("signed", 1):
            return names[combine].reduce(_unsigned(operand), axis=axis).astype(operand.dtype)
        return rounded(names[combine].reduce(operand, axis=axis), element)
    with np.errstate(all="ignore"):
        return rounded({**BINARY}[combine].reduce(operand, axis=axis), element)  # type: ignore[attr-defined]


def _unsigned(values: Array) -> Array:
    array = np.asarray(values)
    return array.view(_UNSIGNED[array.dtype]) if array.dtype in _UNSIGNED else array


def _extreme(kind: str, left: Array, right: Array, attributes: Mapping[str, Any]) -> Array:
    if SLACK in attributes:
        return np.where(right > left + np.asarray(attributes[SLACK], np.asarray(left).dtype), right, left)
    if np.issubdtype(np.asarray(left).dtype, np.floating) and not attributes.get("propagate_nan"):
        return (np.fmax if kind == "max" else np.fmin)(left, right)
    choose = np.maximum if kind == "max" else np.minimum
    if attributes.get("signed", 1):
        return choose(left, right)
    return choose(_unsigned(left), _unsigned(right)).astype(np.asarray(left).dtype)


def _compare(left: Array, right: Array, attributes: Mapping[str, Any]) -> Array:
    if not attributes.get("signed", 1):
        left, right = _unsigned(left), _unsigned(right)
    answer = COMPARE[attributes["predicate"]](left, right)
    if "unordered" in attributes:
        return np.where(np.isnan(left) | np.isnan(right), bool(attributes["unordered"]), answer)
    return answer


def _divide(kind: str, left: Array, right: Array, signed: bool) -> Array:
    """Floats as usual (the remainder has the dividend's sign), integers towards zero; by zero: 0."""
    left, right = np.asarray(left), np.asarray(right)
    if np.issubdtype(left.dtype, np.floating):
        return left / right if kind == "div" else np.fmod(left, right)
    dtype = left.dtype
    if not signed:
        left, right = _unsigned(left), _unsigned(right)
    safe = np.where(right == 0, 1, right)
    remainder = np.fmod(left, safe)
    if kind == "rem":
        return remainder.astype(dtype)
    return np.where(right == 0, 0, (left - remainder) // safe).astype(dtype)


def _cast(values: Array, element: str, attributes: Mapping[str, Any], source: str) -> Array:
    floating = source.startswith(("f", "bf"))
    if element.startswith(("f", "bf")):
        signed = attributes.get("signed", 1)
        exact = values if floating or signed else _unsigned(values)
        if source == "i1":
            exact = np.where(values, -1 if signed else 1, 0)
        return rounded(exact, element, towards_zero=attributes.get("rounding") == "rtz")
    if element == "i1":
        return np.asarray(values) != 0 if floating else (np.asarray(values) & 1).astype(np.bool_)
    if floating:
        return np.nan_to_num(np.trunc(values)).astype(np.int64).astype(HELD[element])
    if source == "i1":
        # Sign extension of one bit gives 0 and -1; Triton spells a conversion of truth values unsigned.
        return (-np.asarray(values, HELD[element])) if attributes.get("signed", 1) else values.astype(HELD[element])
    return (values if attributes.get("signed", 1) else _unsigned(values)).astype(HELD[element])


def _encode(values: Array, element: str) -> Array:
    """The bits, as an array of unsigned integers."""
    if element == "bf16":
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if element == "f16":
        return np.asarray(values, np.float16).view(np.uint16)
    if element.startswith("f8"):
        raise KeyError(f"bitcast of {element}")
    array = np.ascontiguousarray(values, HELD[element])
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize]).reshape(array.shape)


def _decode(bits: Array, element: str) -> Array:
    if element == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if element == "f16":
        return bits.view(np.float16).astype(np.float32)
    if element.startswith("f8"):
        raise KeyError(f"bitcast to {element}")
    return bits.view(HELD[element])
