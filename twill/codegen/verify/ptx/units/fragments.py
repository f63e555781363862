"""Which element of a matrix which register of which lane holds: the fragments of `mma.sync` and `wgmma`.

PTX ISA, "Matrix Fragments for mma.m16n8k..." and "Register Fragments and Shared Memory Matrix Layouts" of wgmma: with
g = lane / 4 and t = lane % 4, register r of A holds, of row g + 8 (r % 2), the neighbouring elements that fill 32 bits
from column p (t + 4 (r / 2)) on, p of them; register r of B the same of column g, from row p (t + 4 r) on; an
accumulator i of row g + 8 (i / 2 % 2) the column 8 (i / 4) + 2 t + i % 2. A warp group has rows 16 w of its warp w.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twill.ptx.formats import FORMATS, decode

Array = NDArray[Any]

INTEGERS: dict[str, Any] = {"s8": np.int8, "u8": np.uint8}
UNSIGNED: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}


def width(kind: str) -> int:
    """Bits of an operand's element. KeyError: no such operand."""
    return 8 if kind in INTEGERS else FORMATS[kind].width


def numbers(bits: Array, kind: str) -> Array:
    """Elements of an operand as float64 (floats) or int64 (integers), exactly. bits: unsigned, of its width."""
    if kind in INTEGERS:
        integers: Array = bits.view(INTEGERS[kind]).astype(np.int64)
        return integers
    return _wide(decode(bits, kind))


def _wide(values: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaN
        return values.astype(np.float64)


@lru_cache
def _a_places(bits: int, registers: int) -> tuple[Array, Array]:
    """Row and column of each element: [32 lanes, registers, elements of a register]."""
    per = 32 // bits
    lane, register, element = np.ogrid[:32, :registers, :per]
    row = lane // 4 + 8 * (register % 2) + 0 * element
    return row, per * (lane % 4 + 4 * (register // 2)) + element


@lru_cache
def _b_places(bits: int, registers: int) -> tuple[Array, Array]:
    """Row (along k) and column (along n) of each element: [32 lanes, registers, elements of a register]."""
    per = 32 // bits
    lane, register, element = np.ogrid[:32, :registers, :per]
    return per * (lane % 4 + 4 * register) + element, lane // 4 + 0 * (register + element)


@lru_cache
def _d_places(columns: int) -> tuple[Array, Array]:
    """Row and column of each accumulator of a warp: [32 lanes, columns / 2]."""
    lane, number = np.ogrid[:32, : columns // 2]
    return lane // 4 + 8 * (number // 2 % 2), 8 * (number // 4) + 2 * (lane % 4) + number % 2


def _elements(registers: Array, kind: str) -> Array:
    """[..., r] registers (uint32) as [..., r, elements of a register]."""
    bits = width(kind)
    apart = np.ascontiguousarray(registers).view(UNSIGNED[bits])
    return numbers(apart, kind).reshape(*registers.shape, 32 // bits)


def a_matrix(registers: Array, kind: str) -> Array:
    """A [..., 16, k] of the registers (uint32) [..., 32, r] of a warp."""
    count = registers.shape[-1]
    row, column = _a_places(width(kind), count)
    elements = _elements(registers, kind)
    matrix = np.zeros((*registers.shape[:-2], 16, max(count // 2, 1) * 4 * 32 // width(kind)), elements.dtype)
    matrix[..., row, column] = elements
    return matrix


def b_matrix(registers: Array, kind: str) -> Array:
    """B [..., k, 8] of the registers (uint32) [..., 32, r] of a warp."""
    count = registers.shape[-1]
    row, column = _b_places(width(kind), count)
    elements = _elements(registers, kind)
    matrix = np.zeros((*registers.shape[:-2], count * 4 * 32 // width(kind), 8), elements.dtype)
    matrix[..., row, column] = elements
    return matrix


def d_matrix(registers: Array, kind: str) -> Array:
    """The accumulators [..., 16, n] of the registers (uint32) [..., 32, r] of a warp: f32, s32, or f16 in pairs."""
    values = _accumulators(registers, kind)
    row, column = _d_places(2 * values.shape[-1])
    matrix = np.zeros((*values.shape[:-2], 16, 2 * values.shape[-1]), values.dtype)
    matrix[..., row, column] = values
    return matrix


def d_registers(matrix: Array, kind: str) -> Array:
    """The registers (uint32) [..., 32, r] of accumulators given as bits [..., 16, n] (uint32, or uint16 for f16)."""
    row, column = _d_places(matrix.shape[-1])
    return np.ascontiguousarray(matrix[..., row, column]).view(np.uint32)


def _accumulators(registers: Array, kind: str) -> Array:
    held = np.ascontiguousarray(registers)
    if kind == "s32":
        return held.view(np.int32).astype(np.int64)
    return _wide(decode(held.view(np.uint16) if kind == "f16" else held, kind))
