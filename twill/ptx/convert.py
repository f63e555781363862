"""`cvt`: PTX ISA, "cvt", with its roundings, saturation and packed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twill.ptx.arrays import is_number
from twill.ptx.floats import canonical, flush, saturated
from twill.ptx.formats import decode, encode
from twill.ptx.integers import applied
from twill.ptx.program import PtxInstruction
from twill.ptx.registers import TYPES, Operands, types_of, unsupported
from twill.ptx.step import Array, Step

Function = Callable[..., Array]
_HALVES = ("f16", "bf16", "tf32")
_PACKED = {"f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2"}
_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of a conversion; None if it is none."""
    if instruction.name != "cvt":
        return None
    types = types_of(instruction)
    if len(types) != 2 or "pack" in instruction.modifiers:
        raise unsupported(instruction)
    target, source = types
    if target in _PACKED:
        return _packing(operands, instruction, target, source)
    function = _function(instruction, target, source)
    return applied(operands, instruction, target, (source,), function)


def _rounding(instruction: PtxInstruction) -> str:
    return next((r for r in ("rn", "rz", "rm", "rp", "rna", "rs") if r in instruction.modifiers), "rn")


def _packing(operands: Operands, instruction: PtxInstruction, target: str, source: str) -> Step:
    """Two numbers to one register: the first operand becomes the upper half."""
    kind, rounding = _PACKED[target], _rounding(instruction)
    small = kind in ("e4m3", "e5m2")
    finite, positive = "satfinite" in instruction.modifiers, "relu" in instruction.modifiers
    part, whole = (np.uint16, np.uint32) if not small else (np.uint8, np.uint16)
    shift = whole(16 if not small else 8)

    def coded(values: Array) -> Array:
        if positive:
            values = np.where(np.isnan(values), values, np.maximum(values, np.float32(0)))
        if kind == "bf16" and rounding == "rn" and not finite:
            return to_bf16(values)
        return encode(values, kind, rounding, finite).astype(part)

    if source == "f32":
        pair: Function = lambda a, b: coded(b).astype(whole) | coded(a).astype(whole) << shift  # noqa: E731
        return applied(operands, instruction, target, ("f32", "f32"), pair)
    if source not in _PACKED:
        raise unsupported(instruction)
    given = _PACKED[source]
    wide = 16 if given in ("f16", "bf16") else 8

    def halves(a: Array) -> Array:
        parts = (a & a.dtype.type((1 << wide) - 1), a >> a.dtype.type(wide))
        bits = np.uint16 if wide == 16 else np.uint8
        low, high = (coded(decode(side.astype(bits), given).astype(np.float32)) for side in parts)
        return low.astype(whole) | high.astype(whole) << shift

    return applied(operands, instruction, target, (source,), halves)


def to_bf16(values: Array) -> Array:
    """The bits of float32 rounded to nearest even."""
    bits = values.view(np.uint32)
    near = (bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    if is_number(values):
        return near
    return np.where(np.isnan(values), np.uint16(0x7FFF), near)


def _function(instruction: PtxInstruction, target: str, source: str) -> Function:
    from_float, to_float = source in ("f32", "f64", *_HALVES), target in ("f32", "f64", *_HALVES)
    read: Function = (lambda a: decode(a, source).astype(np.float32)) if source in _HALVES else (lambda a: a)
    if from_float and to_float:
        return _between_floats(instruction, target, source, read)
    if from_float:
        return _to_integer(instruction, target, source, read)
    if to_float:
        return _from_integer(instruction, target)
    return _between_integers(instruction, target, source)


def _between_floats(instruction: PtxInstruction, target: str, source: str, read: Function) -> Function:
    modifiers = set(instruction.modifiers)
    whole = next((function for name, function in _WHOLE.items() if name in modifiers), None)
    rounding = _rounding(instruction)

    def run(a: Array) -> Array:
        values = read(a)
        if "ftz" in modifiers and values.dtype == np.float32:
            values = flush(values)
        if whole is not None:
            values = whole(values)
        if "relu" in modifiers:
            values = np.where(np.isnan(values), values, np.maximum(values, values.dtype.type(0)))
        if "sat" in modifiers:
            values = saturated(values)
        if target == "f64":
            return values.astype(np.float64)
        if target == "f32":
            if values.dtype == np.float32:
                return _canonical(values)
            return _canonical(encode(values, "f32", rounding).view(np.float32))
        if target == "bf16" and rounding == "rn" and values.dtype == np.float32 and "satfinite" not in modifiers:
            return to_bf16(values)
        return encode(values, target, rounding, "satfinite" in modifiers)

    return run


_canonical = canonical(lambda a: a)


def _to_integer(instruction: PtxInstruction, target: str, source: str, read: Function) -> Function:
    """Out of range: the nearest integer of the type; NaN: 0, of 64 bits 2**63."""
    rounding = next((function for name, function in _WHOLE.items() if name in instruction.modifiers), None)
    if rounding is None:
        raise unsupported(instruction, "a float becomes an integer with rni, rzi, rmi or rpi")
    dtype = np.dtype(TYPES[target])
    limits = np.iinfo(dtype)
    wide = dtype.itemsize == 8 or source == "f64"
    nan = (
        np.array([1 << 8 * dtype.itemsize - 1], np.uint64).astype(_unsigned(dtype)).view(dtype)[0]
        if wide
        else dtype.type(0)
    )

    def run(a: Array) -> Array:
        values = read(a)
        if "ftz" in instruction.modifiers and values.dtype == np.float32:
            values = flush(values)
        whole = rounding(values.astype(np.float64))
        inside = (whole >= float(limits.min)) & (whole < float(limits.max) + (1.0 if dtype.itemsize < 8 else 0.0))
        number = np.where(inside, whole, 0.0).astype(dtype)
        beyond = np.where(whole > 0, limits.max, limits.min).astype(dtype)
        return np.where(np.isnan(whole), nan, np.where(inside, number, beyond))

    return run


def _from_integer(instruction: PtxInstruction, target: str) -> Function:
    rounding = _rounding(instruction)

    def run(a: Array) -> Array:
        if rounding == "rn" and target == "f32":
            return a.astype(np.float32)
        if target == "f64" and (rounding == "rn" or a.dtype.itemsize < 8):
            return a.astype(np.float64)
        if a.dtype.itemsize == 8:
            raise unsupported(instruction, "64-bit integers are rounded to nearest f32 and f64 only")
        if target == "f32":
            return encode(a.astype(np.float64), "f32", rounding).view(np.float32)
        return encode(a.astype(np.float64), target, rounding)

    return run


def _between_integers(instruction: PtxInstruction, target: str, source: str) -> Function:
    dtype = np.dtype(TYPES[target])
    if "sat" not in instruction.modifiers:
        return lambda a: a.astype(dtype)
    limits, given = np.iinfo(dtype), np.iinfo(TYPES[source])
    low, high = max(limits.min, given.min), min(limits.max, given.max)
    return lambda a: np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(dtype)


def _unsigned(dtype: np.dtype[Any]) -> Any:
    return np.dtype(f"u{dtype.itemsize}")
