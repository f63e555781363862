"""A warp's matrices: `ldmatrix`, `stmatrix`, `movmatrix`, `mma.sync`.

PTX ISA, "Warp Level Matrix Instructions". A lane holds, of each 8 x 8 matrix of 16-bit elements, two neighbours of row
lane / 4, columns 2 (lane % 4) and + 1, in one register. Registers are uint32 [..., 32, r]: of one warp or of several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twill.codegen.verify.ptx.units.fragments import a_matrix, b_matrix, d_matrix, d_registers, width
from twill.codegen.verify.ptx.units.mma_sums import multiply_add
from twill.ptx.arrays import some

Array = NDArray[Any]
_LANES, _ROWS, _ROW_BYTES = 32, 8, 16

_SHAPES = {
    "f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "e4m3": (16, 32), "e5m2": (16, 32), "s8": (16, 32), "u8": (16, 32),
}  # fmt: skip
"""k of m16n8k... by the operands' type."""


def ldmatrix(count: int, addresses: Array, shared: Array, trans: bool = False) -> Array:
    """The registers uint32 [..., 32, count] of `ldmatrix.m8n8.x{count}.b16`.

    addresses: of rows of 16 bytes in shared memory, [..., 32]; lane i names row i % 8 of matrix i / 8, lanes beyond say
    nothing. shared: all of shared memory, uint8. ValueError: a row that is no multiple of 16.
    """
    rows = _rows(count, addresses)
    words = shared[rows[..., None] + np.arange(_ROW_BYTES)].view(np.uint16)  # [..., count * 8, 8]
    matrices = words.reshape(*words.shape[:-2], count, _ROWS, 8)
    return _registers(matrices.swapaxes(-1, -2) if trans else matrices)


def stmatrix(count: int, addresses: Array, registers: Array, trans: bool = False) -> tuple[Array, Array]:
    """What `stmatrix.m8n8.x{count}.b16` writes: addresses of bytes [..., 8 count, 16] and the bytes, uint8.

    registers: [..., 32, count]; the rest as `ldmatrix`.
    """
    rows = _rows(count, addresses)
    matrices = _matrices(registers)
    words = np.ascontiguousarray(matrices.swapaxes(-1, -2) if trans else matrices)
    stored = words.view(np.uint8).reshape(*rows.shape, _ROW_BYTES)
    return rows[..., None] + np.arange(_ROW_BYTES), stored


def movmatrix(registers: Array) -> Array:
    """`movmatrix.m8n8.trans.b16`: the registers [..., 32] of the transposed matrix."""
    return _registers(_matrices(registers[..., None]).swapaxes(-1, -2))[..., 0]


def mma(
    shape: tuple[int, int, int],
    kinds: tuple[str, str, str],
    a: Array,
    b: Array,
    c: Array,
    saturate: bool = False,
) -> Array:
    """The registers of D = A B + C of `mma.sync.m16n8k...row.col`, as those of `c`.

    kinds: of C and D (f32, f16, s32), A and B. a, b, c: uint32 [..., 32, r]. ValueError: no such form.
    """
    result, left, right = kinds
    m, n, k = shape
    if (m, n) != (16, 8) or k not in _SHAPES.get(left, ()) or width(left) != width(right):
        raise ValueError(f"mma has no m{m}n{n}k{k} of {left} and {right}")
    per = k * width(left) // 128  # registers of B
    if a.shape[-1] != 2 * per or b.shape[-1] != per or c.shape[-1] != (2 if result == "f16" else 4):
        raise ValueError(f"mma m{m}n{n}k{k} of {left} has other registers than {a.shape}, {b.shape}, {c.shape}")
    total = multiply_add(a_matrix(a, left), b_matrix(b, right), d_matrix(c, result), result, saturate)
    return d_registers(total)


def _rows(count: int, addresses: Array) -> Array:
    if count not in (1, 2, 4):
        raise ValueError(f"no form for {count} matrices")
    rows = addresses[..., : _ROWS * count].astype(np.int64)
    if some(rows % _ROW_BYTES):
        raise ValueError(f"a row of a matrix lies at {int(rows[rows % _ROW_BYTES != 0][0]):#x}, no multiple of 16")
    return rows


def _registers(matrices: Array) -> Array:
    """[..., count, 8, 8] of 16 bits as registers [..., 32, count]."""
    pairs = np.ascontiguousarray(matrices).view(np.uint32)  # [..., count, 8, 4]: row, pair
    return np.ascontiguousarray(pairs.reshape(*pairs.shape[:-2], _LANES).swapaxes(-1, -2))


def _matrices(registers: Array) -> Array:
    """Registers [..., 32, count] as [..., count, 8, 8] of 16 bits."""
    lanes = np.ascontiguousarray(registers.swapaxes(-1, -2))
    return lanes.view(np.uint16).reshape(*lanes.shape[:-1], _ROWS, 8)
