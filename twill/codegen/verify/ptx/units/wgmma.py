"""`wgmma.mma_async`: a warp group's product of matrices in shared memory, read through their descriptors.

PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": register fragments, canonical layouts
of matrices in shared memory, the matrix descriptor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from twill.codegen.verify.ptx.units.fragments import (
    INTEGERS,
    UNSIGNED,
    a_matrix,
    d_matrix,
    d_registers,
    numbers,
    width,
)
from twill.codegen.verify.ptx.units.mma_sums import multiply_add
from twill.ptx.arrays import frozen, highest

Array = NDArray[Any]
_CHUNK = 16  # bytes: an element of the canonical layouts
_ROW_OF_BANKS = 128  # bytes: the step of addresses that swizzles count
_SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}  # by the descriptor's field
_DEPTH_BYTES = 32  # of a row of A, a column of B
_FLOATS = ("f16", "bf16", "tf32", "e4m3", "e5m2")


@dataclass(frozen=True)
class MatrixDescriptor:
    """Where a matrix lies. start, leading, stride: bytes; swizzle: bytes, 0 for none; base: rows of 128 bytes by which
    the swizzle's pattern starts behind a multiple of its size."""

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int

    @classmethod
    def decoded(cls, bits: int) -> MatrixDescriptor:
        """Bits 0-13 address, 16-29 leading byte offset, 32-45 stride byte offset (each without its low 4 bits), 49-51
        base offset, 62-63 swizzle (0 none, 1: 128 bytes, 2: 64, 3: 32)."""
        return cls(
            start=(bits & 0x3FFF) << 4,
            leading=(bits >> 16 & 0x3FFF) << 4,
            stride=(bits >> 32 & 0x3FFF) << 4,
            base=bits >> 49 & 0x7,
            swizzle=_SWIZZLES[bits >> 62 & 0x3],
        )


def multiply(
    shape: tuple[int, int, int],
    kinds: tuple[str, str, str],
    a: int | Array,
    desc_b: int,
    shared: Array,
    d: Array,
    scale_d: bool,
    imm_scale_a: Literal[1, -1] = 1,
    imm_scale_b: Literal[1, -1] = 1,
    trans_a: bool = False,
    trans_b: bool = False,
    saturate: bool = False,
) -> Array:
    """The registers of D = A B + D, or of A B without `scale_d`: uint32 [128, registers].

    shape: m, n, k. kinds: of D (f32, f16, s32), A and B. a: a descriptor, or registers uint32 [128, 4]. shared: all of
    shared memory, uint8, from its address 0. d: registers uint32 [128, n / 2], of f16 two to a register. imm_scale_*:
    -1 negates. trans_*: the matrix lies with M or N, not K, along its rows (f16 and bf16 only). saturate: `.satfinite`
    of s32.

    ValueError: a form that the instruction has not, or a matrix that does not lie in shared memory.
    """
    _, n, k = shape
    _check(shape, kinds, isinstance(a, int), trans_a, trans_b, d)
    if isinstance(a, int):
        left = matrix(a, 64, kinds[1], trans_a, shared)
    else:
        left = a_matrix(a.reshape(4, 32, 4), kinds[1]).reshape(64, k)
    right = matrix(desc_b, n, kinds[2], trans_b, shared).T
    added = d_matrix(d.reshape(4, 32, -1), kinds[0]).reshape(64, n) if scale_d else None
    left = -left if imm_scale_a < 0 else left
    right = -right if imm_scale_b < 0 else right
    result = multiply_add(left, right, added, kinds[0], saturate)
    return d_registers(result.reshape(4, 16, n)).reshape(128, -1)


def matrix(descriptor: int, rows: int, kind: str, mn_major: bool, shared: Array) -> Array:
    """The operand (rows along M or N, columns along K: 32 bytes) that a descriptor names, as float64 or int64."""
    bits = UNSIGNED[width(kind)]
    at = chunks(descriptor, rows, mn_major)
    if highest(at) + _CHUNK > len(shared):
        raise ValueError(f"wgmma reads byte {highest(at) + _CHUNK - 1} of {len(shared)} bytes of shared memory")
    read = chunks_of(shared, at).view(bits)
    if mn_major:  # [k, chunk along M or N, elements]
        return numbers(read.reshape(at.shape[0], -1), kind).T[:rows]
    return numbers(read.reshape(rows, -1), kind)  # [row, chunk along K, elements]


def chunks_of(shared: Array, at: Array) -> Array:
    """The 16 bytes at each of these addresses, multiples of 16: uint8 [..., 16]."""
    whole = shared[: len(shared) // _CHUNK * _CHUNK].view(np.complex128)  # of 16 bytes, which are only moved
    found: Array = whole[at // _CHUNK][..., None].view(np.uint8)
    return found


def chunks(descriptor: int, rows: int, mn_major: bool) -> Array:
    """Shared-memory addresses of the matrix's 16-byte chunks: [rows, 2], or [16 of k, rows / 8] if M- or N-major."""
    where = MatrixDescriptor.decoded(descriptor)
    return placed(where.start, where.leading, where.stride, where.base, where.swizzle, rows, mn_major, 2)


def placed(
    start: int, leading: int, stride: int, base: int, swizzle: int, rows: int, mn_major: bool, size: int
) -> Array:
    """The same of a descriptor's fields. size: bytes of an element, of which 32 bytes lie along K."""
    offsets = _mn_major(rows, leading, stride, swizzle, size) if mn_major else _k_major(rows, leading, stride, swizzle)
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    plain = offsets + start
    row = (plain // _ROW_OF_BANKS - base) & mask
    moved: Array = plain ^ (row * _CHUNK)
    return moved


@lru_cache(maxsize=1024)
def _k_major(rows: int, leading: int, stride: int, swizzle: int) -> Array:
    """Offsets of chunks [row, 2 along K], before the swizzle. Eight rows make a core matrix, `stride` from one to the
    next; without swizzle its rows follow one another and the second chunks are `leading` further on; with, rows
    are as long as the swizzle and chunks neighbours."""
    row, chunk = np.ogrid[:rows, : _DEPTH_BYTES // _CHUNK]
    pitch, step = (swizzle, _CHUNK) if swizzle else (_CHUNK, leading)
    return frozen(row // 8 * stride + row % 8 * pitch + chunk * step)


@lru_cache(maxsize=1024)
def _mn_major(rows: int, leading: int, stride: int, swizzle: int, size: int) -> Array:
    """Offsets of chunks [k, 16 bytes along M or N], before the swizzle. Without swizzle eight k make a
    core matrix, the next along M or N is `stride` further on and the next along K `leading`; with, a row of a swizzle's
    length has chunks along M or N, the next such row of the same k is `leading` further on, and eight k `stride`."""
    k, chunk = np.ogrid[: _DEPTH_BYTES // size, : rows * size // _CHUNK]
    if not swizzle:
        return frozen(chunk * stride + k // 8 * leading + k % 8 * _CHUNK)
    per = swizzle // _CHUNK
    return frozen(chunk // per * leading + chunk % per * _CHUNK + k // 8 * stride + k % 8 * swizzle)


def _check(
    shape: tuple[int, int, int], kinds: tuple[str, str, str], shared: bool, trans_a: bool, trans_b: bool, d: Array
) -> None:
    m, n, k = shape
    result, a, b = kinds
    if not _exists(result, a, b):
        raise ValueError(f"wgmma has no {result} of {a} and {b}")
    steps = n % 8 == 0 and 8 <= n <= 256 and (result != "s32" or n <= 32 or n % 16 == 0)
    if m != 64 or not steps or k * width(a) != 8 * _DEPTH_BYTES:
        raise ValueError(f"wgmma has no shape m{m}n{n}k{k} of {a}")
    if (trans_a or trans_b) and a not in ("f16", "bf16"):
        raise ValueError(f"wgmma reads {a} along K only")
    if trans_a and not shared:
        raise ValueError("wgmma transposes no A in registers")
    registers = n // 4 if result == "f16" else n // 2
    if d.shape != (128, registers) or d.dtype != np.uint32:
        raise ValueError(
            f"an accumulator of {registers} registers is uint32 (128, {registers}), not {d.dtype} {d.shape}"
        )


def _exists(result: str, a: str, b: str) -> bool:
    if a in INTEGERS and b in INTEGERS:
        return result == "s32"
    eights = ("e4m3", "e5m2")
    if not (a == b and a in _FLOATS or a in eights and b in eights):
        return False
    return result == "f32" or result == "f16" and a in ("f16", *eights)
