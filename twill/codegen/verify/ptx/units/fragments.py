"""Which element of a matrix which register of which lane holds: the fragments of `mma.sync` and `wgmma`.

PTX ISA, "Matrix Fragments for mma.m16n8k..." and "Register Fragments and Shared Memory Matrix Layouts" of wgmma: with
g = lane / 4 and t = lane % 4, register r of A holds, of row g + 8 (r % 2), the neighbouring elements that fill 32 bits
from column p (t + 4 (r / 2)) on, p of them; register r of B the same of column g, from row p (t + 4 r) on; an
accumulator i of row g + 8 (i / 2 % 2) the column 8 (i / 4) + 2 t + i % 2. A warp group has rows 16 w of its warp w.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twill.ptx.formats import FORMATS, decode

Array = NDArray[Any]

INTEGERS: dict[str, Any] = {"s8": np.int8, "u8": np.uint8}
UNSIGNED: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}
_OF_A = (3, 0, 2, 1, 4)  # registers are [g, t, r / 2, r % 2, element], the matrix [r % 2, g, r / 2, t, element]
_OF_D = (3, 0, 2, 1, 4)  # registers are [g, t, i / 4, i / 2 % 2, i % 2], the matrix [i / 2 % 2, g, i / 4, t, i % 2]


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


def _elements(registers: Array, kind: str) -> Array:
    """[..., r] registers (uint32) as [..., r, elements of a register]."""
    bits = width(kind)
    apart = np.ascontiguousarray(registers).view(UNSIGNED[bits])
    return numbers(apart, kind).reshape(*registers.shape, 32 // bits)


def a_matrix(registers: Array, kind: str) -> Array:
    """A [..., 16, k] of the registers (uint32) [..., 32, r] of a warp."""
    *warps, _, count = registers.shape
    elements = _elements(registers, kind).reshape(*warps, 8, 4, count // 2, 2, -1)
    return _moved(elements, _OF_A).reshape(*warps, 16, -1)


def b_matrix(registers: Array, kind: str) -> Array:
    """B [..., k, 8] of the registers (uint32) [..., 32, r] of a warp."""
    *warps, _, count = registers.shape
    elements = _elements(registers, kind).reshape(*warps, 8, 4, count, 1, -1)  # g, t, r, of one, element
    return _moved(elements, (2, 1, 4, 3, 0)).reshape(*warps, -1, 8)


def d_matrix(registers: Array, kind: str) -> Array:
    """The accumulators [..., 16, n] of the registers (uint32) [..., 32, r] of a warp: f32, s32, or f16 in pairs."""
    values = _accumulators(registers, kind)
    *warps, _, count = values.shape
    return _moved(values.reshape(*warps, 8, 4, count // 4, 2, 2), _OF_D).reshape(*warps, 16, 2 * count)


def d_registers(matrix: Array) -> Array:
    """The registers (uint32) [..., 32, r] of accumulators given as bits [..., 16, n] (uint32, or uint16 for f16)."""
    *warps, _, columns = matrix.shape
    sizes = (8, 4, columns // 8, 2, 2)
    apart = matrix.reshape(*warps, *(sizes[axis] for axis in _OF_D))
    registers = _moved(apart, tuple(map(_OF_D.index, range(5)))).reshape(*warps, 32, columns // 2)
    return np.ascontiguousarray(registers).view(np.uint32)


def _moved(array: Array, axes: tuple[int, ...]) -> Array:
    """Its last five axes in another order."""
    first = array.ndim - len(axes)
    return array.transpose(*range(first), *(first + axis for axis in axes))


def _accumulators(registers: Array, kind: str) -> Array:
    held = np.ascontiguousarray(registers)
    if kind == "s32":
        return held.view(np.int32).astype(np.int64)
    return _wide(decode(held.view(np.uint16) if kind == "f16" else held, kind))
