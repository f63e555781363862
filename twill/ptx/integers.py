"""Integer and bit instructions: PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twill.ptx.arrays import some
from twill.ptx.computed import Computation, form_of
from twill.ptx.program import Immediate, Nothing, PtxInstruction, width
from twill.ptx.registers import TYPES, Operands, types_of, unsupported
from twill.ptx.step import Array, Step

Function = Callable[..., Array]
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of an integer instruction; None if it is none."""
    name, types = instruction.name, types_of(instruction)
    if name not in _TABLE or not types:
        return None
    result, arguments, function = _TABLE[name](instruction, types[-1])
    given = instruction.operands[1 : 1 + len(arguments)]
    if len(given) != len(arguments) or len(instruction.operands) != len(arguments) + 1:
        raise unsupported(instruction, f"{len(instruction.operands)} operands")
    return applied(operands, instruction, result, arguments, function)


def applied(
    operands: Operands, instruction: PtxInstruction, result: str, arguments: tuple[str, ...], function: Function
) -> Step:
    """Destination = function(operands), with the types of each. The function takes arrays of one axis, element by
    element, and is the same for all instructions of one `form_of`."""
    if not isinstance(instruction.operands[0], Nothing):
        given = Computation(form_of(operands, instruction), result, arguments, function)
        computed = given.of(operands, instruction)
        if computed is not None:
            return computed
    put = operands.put(instruction, instruction.operands[0], result)
    fetches = [operands.fetch(instruction, o, t) for o, t in zip(instruction.operands[1:], arguments, strict=False)]
    return lambda g: put(g, function(*(fetch(g) for fetch in fetches)))


Form = tuple[str, tuple[str, ...], Function]


def _same(count: int, function: Callable[[str], Function]) -> Callable[[PtxInstruction, str], Form]:
    """All operands of one type."""
    return lambda instruction, type: (type, (type,) * count, function(type))


def _wrapping(function: Function) -> Callable[[PtxInstruction, str], Form]:
    """Two operands, whose sign does not matter."""

    def form(instruction: PtxInstruction, type: str) -> Form:
        bits = f"u{8 * width(type)}"
        if "sat" in instruction.modifiers:
            limits = np.iinfo(np.int32)
            return (
                "s32",
                ("s32", "s32"),
                lambda a, b: np.clip(function(a.astype(np.int64), b.astype(np.int64)), limits.min, limits.max).astype(
                    np.int32
                ),
            )
        if "cc" in instruction.modifiers:
            raise unsupported(instruction, "the condition code")
        return bits, (bits, bits), function

    return form


def _bits(count: int, function: Function) -> Callable[[PtxInstruction, str], Form]:
    """On bits, or predicates."""

    def form(instruction: PtxInstruction, type: str) -> Form:
        kind = "pred" if type == "pred" else f"b{8 * width(type)}"
        return kind, (kind,) * count, function

    return form


def high(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    size = a.dtype.itemsize
    if size < 8:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return (a.astype(wide) * b.astype(wide) >> wide(8 * size)).astype(a.dtype)
    if a.dtype.kind == "i":
        unsigned = high(a.view(np.uint64), b.view(np.uint64))
        return (
            unsigned
            - np.where(a < 0, b.view(np.uint64), np.uint64(0))
            - np.where(b < 0, a.view(np.uint64), np.uint64(0))
        ).view(np.int64)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    result: Array = a1 * b1 + (middle >> half) + (other >> half)
    return result


def _multiply(instruction: PtxInstruction, type: str) -> Form:
    if "wide" in instruction.modifiers:
        result = f"{type[0]}{16 * width(type)}"
        wide = TYPES[result]
        return result, (type, type), lambda a, b: a.astype(wide) * b.astype(wide)
    if "hi" in instruction.modifiers:
        return type, (type, type), high
    return _wrapping(np.multiply)(instruction, type)


def _multiply_add(instruction: PtxInstruction, type: str) -> Form:
    if {"sat", "cc"} & set(instruction.modifiers):
        raise unsupported(instruction)
    if "wide" in instruction.modifiers:
        result = f"{type[0]}{16 * width(type)}"
        wide = TYPES[result]
        return result, (type, type, result), lambda a, b, c: a.astype(wide) * b.astype(wide) + c
    if "hi" in instruction.modifiers:
        return type, (type, type, type), lambda a, b, c: high(a, b) + c
    bits = f"u{8 * width(type)}"
    return bits, (bits, bits, bits), lambda a, b, c: a * b + c


def divided(a: Array, b: Array) -> Array:
    """Truncated; all ones for a division by zero, which PTX leaves open."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, ~np.zeros_like(a), a // safe)
    bits = a.dtype.itemsize
    unsigned = _UNSIGNED[bits]
    magnitude = _magnitude(a) // _magnitude(safe)
    signed = np.where((a < 0) != (b < 0), unsigned(0) - magnitude, magnitude).view(a.dtype)
    return np.where(b == 0, a.dtype.type(-1), signed)


def remainder(a: Array, b: Array) -> Array:
    """With the sign of the dividend; the dividend itself for a division by zero."""
    bits = _UNSIGNED[a.dtype.itemsize]
    quotient = divided(a, b).view(bits)
    result: Array = (a.view(bits) - quotient * b.view(bits)).view(a.dtype)
    return np.where(b == 0, a, result)


def _magnitude(a: Array) -> Array:
    bits = a.view(_UNSIGNED[a.dtype.itemsize])
    return np.where(a < 0, bits.dtype.type(0) - bits, bits)


def _shift(left: bool) -> Callable[[PtxInstruction, str], Form]:
    def form(instruction: PtxInstruction, type: str) -> Form:
        bits = 8 * width(type)
        kind = type if type[0] == "s" else f"u{bits}"
        dtype = TYPES[kind]
        given = instruction.operands[2] if len(instruction.operands) == 3 else None
        if isinstance(given, Immediate) and 0 <= given.value < bits:
            by = dtype(given.value)
            return kind, (kind, "u32"), (lambda a, _: a << by) if left else (lambda a, _: a >> by)

        def shifted(a: Array, count: Array) -> Array:
            """Counts beyond the width are clamped to it."""
            inside = np.minimum(count, bits - 1).astype(dtype)
            moved = a << inside if left else a >> inside
            beyond = count >= bits
            if not some(beyond):
                return moved
            rest = np.zeros_like(a) if left or kind[0] != "s" else a >> dtype(bits - 1)
            return np.where(beyond, rest, moved)

        return kind, (kind, "u32"), shifted

    return form


def _lop3(instruction: PtxInstruction, type: str) -> Form:
    table = instruction.operands[4] if len(instruction.operands) > 4 else None
    if not isinstance(table, Immediate):
        raise unsupported(instruction)

    def function(a: Array, b: Array, c: Array, _: Array) -> Array:
        result = np.zeros_like(a)
        for row in range(8):
            if table.value >> row & 1:
                result = result | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
        return result

    return "b32", ("b32",) * 4, function


def _permute(instruction: PtxInstruction, type: str) -> Form:
    modes = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"} & set(instruction.modifiers)
    if modes:
        raise unsupported(instruction)
    return "u32", ("u32",) * 3, permuted


def permuted(a: Array, b: Array, selector: Array) -> Array:
    """`prmt`: each nibble of the selector names a byte of the eight, or with its top bit that byte's sign."""
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    result = np.zeros_like(a)
    for place in range(4):
        nibble = selector >> np.uint32(4 * place) & np.uint32(0xF)
        byte = (both >> (nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8) & np.uint64(0xFF)).astype(np.uint32)
        signs = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result = result | np.where(nibble & np.uint32(8), signs, byte) << np.uint32(8 * place)
    return result


def _count_bits(instruction: PtxInstruction, type: str) -> Form:
    return "u32", (f"u{8 * width(type)}",), lambda a: np.bitwise_count(a).astype(np.uint32)


def _leading(instruction: PtxInstruction, type: str) -> Form:
    return "u32", (f"u{8 * width(type)}",), leading_zeros


def leading_zeros(a: Array) -> Array:
    """Of unsigned numbers."""
    filled = a
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < 8 * a.dtype.itemsize:
            filled = filled | filled >> a.dtype.type(shift)
    return np.uint32(8 * a.dtype.itemsize) - np.bitwise_count(filled).astype(np.uint32)


def _find(instruction: PtxInstruction, type: str) -> Form:
    bits = 8 * width(type)

    def function(a: Array) -> Array:
        if a.dtype.kind == "i":
            a = np.where(a < 0, ~a, a).view(_UNSIGNED[a.dtype.itemsize])
        zeros = leading_zeros(a)
        place = zeros if "shiftamt" in instruction.modifiers else np.uint32(bits - 1) - zeros
        return np.where(a == 0, np.uint32(0xFFFFFFFF), place)

    return "u32", (type,), function


def _reverse(instruction: PtxInstruction, type: str) -> Form:
    bits = 8 * width(type)

    def function(a: Array) -> Array:
        result = np.zeros_like(a)
        for place in range(bits):
            result = result | (a >> a.dtype.type(place) & a.dtype.type(1)) << a.dtype.type(bits - 1 - place)
        return result

    return f"u{bits}", (f"u{bits}",), function


def _extract(instruction: PtxInstruction, type: str) -> Form:
    bits = 8 * width(type)
    unsigned = f"u{bits}"
    dtype = TYPES[unsigned]
    signed = type[0] == "s"

    def function(a: Array, position: Array, length: Array) -> Array:
        """Bits beyond the number, and the sign of an extracted field, are those of its highest bit if it is signed."""
        place, count = position & np.uint32(0xFF), length & np.uint32(0xFF)
        sign_at = np.minimum(place + count - np.uint32(1), np.uint32(bits - 1)) if signed else place
        sign_at = np.where(count == 0, np.uint32(0), sign_at)
        sign = (a >> sign_at.astype(dtype) & dtype(1)) if signed else np.zeros_like(a)
        sign = np.where(count == 0, dtype(0), sign)
        moved = np.where(place >= bits, dtype(0), a >> np.minimum(place, bits - 1).astype(dtype))
        inside = np.minimum(count, np.uint32(bits) - np.minimum(place, np.uint32(bits)))
        mask = _low_ones(inside, dtype, bits)
        return np.where(sign == 1, moved & mask | ~mask, moved & mask)

    return unsigned, (unsigned, "u32", "u32"), function


def _low_ones(count: Array, dtype: Any, bits: int) -> Array:
    """So many ones."""
    partial = (dtype(1) << np.minimum(count, bits - 1).astype(dtype)) - dtype(1)
    return np.where(count >= bits, ~dtype(0), partial)


def _insert(instruction: PtxInstruction, type: str) -> Form:
    bits = 8 * width(type)
    unsigned = f"u{bits}"
    dtype = TYPES[unsigned]

    def function(a: Array, b: Array, position: Array, length: Array) -> Array:
        place, count = position & np.uint32(0xFF), length & np.uint32(0xFF)
        inside = np.minimum(place, bits - 1).astype(dtype)
        mask = np.where(place >= bits, dtype(0), _low_ones(count, dtype, bits) << inside)
        return b & ~mask | a << inside & mask

    return unsigned, (unsigned, unsigned, "u32", "u32"), function


def _funnel(instruction: PtxInstruction, type: str) -> Form:
    left, wraps = "l" in instruction.modifiers, "wrap" in instruction.modifiers

    def function(a: Array, b: Array, count: Array) -> Array:
        amount = (count & np.uint32(31) if wraps else np.minimum(count, np.uint32(32))).astype(np.uint64)
        both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
        if not left:
            return (both >> amount).astype(np.uint32)
        return (both << amount >> np.uint64(32)).astype(np.uint32)

    return "u32", ("u32",) * 3, function


def _mask(instruction: PtxInstruction, type: str) -> Form:
    wraps = "wrap" in instruction.modifiers

    def function(a: Array, b: Array) -> Array:
        place, count = (a & np.uint32(31), b & np.uint32(31)) if wraps else (a, b)
        ones = _low_ones(np.minimum(count, np.uint32(32)), np.uint32, 32)
        return np.where(place > 31, np.uint32(0), ones << np.minimum(place, np.uint32(31)))

    return "u32", ("u32", "u32"), function


def _nth_set(instruction: PtxInstruction, type: str) -> Form:
    """The place of the nth bit that is set, from a base on upwards or, of negative n, downwards; of n = 0 the base's
    own. All ones if there is none."""

    def function(mask: Array, base: Array, offset: Array) -> Array:
        mask, base, offset = np.broadcast_arrays(mask, base, offset)
        start, nth = base.astype(np.int64), np.abs(offset.astype(np.int64))
        left, found = np.where(nth == 0, 1, nth), np.full(mask.shape, -1)
        for far in range(32):
            at = start + np.where(offset < 0, -far, far)
            bits = mask >> np.clip(at, 0, 31).astype(np.uint32) & np.uint32(1)
            there = (at >= 0) & (at < 32) & (bits == 1) & ((nth > 0) | (far == 0))
            left = left - there
            found = np.where(there & (left == 0) & (found < 0), at, found)
        return found.astype(np.int32).view(np.uint32)

    return "u32", ("u32", "u32", "s32"), function


def _dot(instruction: PtxInstruction, type: str) -> Form:
    kinds = types_of(instruction)
    left, right = (np.int8 if kind[0] == "s" else np.uint8 for kind in kinds)

    def function(a: Array, b: Array, c: Array) -> Array:
        rows = np.broadcast_arrays(a, b)
        parts = [
            np.ascontiguousarray(row).view(kind).reshape(-1, 4) for row, kind in zip(rows, (left, right), strict=True)
        ]
        return (parts[0].astype(np.int64) * parts[1]).sum(1).astype(np.uint32) + c

    return "u32", ("u32", "u32", "u32"), function


def _short_product(instruction: PtxInstruction, type: str) -> Form:
    if "lo" not in instruction.modifiers:
        raise unsupported(instruction)
    return type, (type, type), lambda a, b: (a << 8 >> 8) * (b << 8 >> 8)


_TABLE: dict[str, Callable[[PtxInstruction, str], Form]] = {
    "add": _wrapping(np.add),
    "sub": _wrapping(np.subtract),
    "mul": _multiply,
    "mad": _multiply_add,
    "mul24": _short_product,
    "div": _same(2, lambda type: divided),
    "rem": _same(2, lambda type: remainder),
    "min": _same(2, lambda type: np.minimum),
    "max": _same(2, lambda type: np.maximum),
    "abs": _same(1, lambda type: np.abs),
    "neg": _same(1, lambda type: lambda a: a.dtype.type(0) - a),
    "sad": _same(3, lambda type: lambda a, b, c: c + np.where(a < b, b - a, a - b)),
    "and": _bits(2, np.bitwise_and),
    "or": _bits(2, np.bitwise_or),
    "xor": _bits(2, np.bitwise_xor),
    "not": _bits(1, np.invert),
    "cnot": _bits(1, lambda a: (a == 0).astype(a.dtype)),
    "shl": _shift(True),
    "shr": _shift(False),
    "lop3": _lop3,
    "prmt": _permute,
    "popc": _count_bits,
    "clz": _leading,
    "bfind": _find,
    "fns": _nth_set,
    "brev": _reverse,
    "bfe": _extract,
    "bfi": _insert,
    "shf": _funnel,
    "bmsk": _mask,
    "dp4a": _dot,
}  # fmt: skip
