"""`tcgen05.mma`: a product of matrices in shared memory, or of one in tensor memory and one in shared memory.

PTX ISA, "tcgen05.mma", "Canonical Layouts" and "Matrix Multiply-Accumulate Operation Using mma Instructions". Matrices
lie in shared memory as those of wgmma do; what a descriptor says is in `tcgen05_descriptors.py`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twill.codegen.verify.ptx.units.block_scales import NARROW, narrow
from twill.codegen.verify.ptx.units.fragments import INTEGERS, UNSIGNED, numbers, width
from twill.codegen.verify.ptx.units.mma_sums import multiply_add
from twill.codegen.verify.ptx.units.tcgen05_descriptors import InstructionDescriptor, SharedMatrixDescriptor
from twill.codegen.verify.ptx.units.wgmma import chunks_of, placed
from twill.ptx.formats import FORMATS

Array = NDArray[Any]

CHUNK = 16  # bytes
CELLS = 8  # columns of tensor memory that hold the 32 bytes of a row of A


def bytes_of(descriptor: int, rows: int, kind: str, mn_major: bool) -> Array:
    """Shared addresses of the operand's 16-byte chunks: [rows, 2], or [k, chunks along M or N] if it lies along these.

    ValueError: a descriptor or a type that does not exist, or is not executed.
    """
    if kind not in FORMATS and kind not in INTEGERS and kind not in NARROW:
        raise ValueError(f"operands {kind} are not executed")
    if kind in NARROW and mn_major:
        raise ValueError(f"operands {kind} lie along K")
    size = 1 if kind in NARROW else width(kind) // 8
    return _bytes_of(SharedMatrixDescriptor.decoded(descriptor), rows, size, mn_major)


@lru_cache(maxsize=512)
def _bytes_of(where: SharedMatrixDescriptor, rows: int, size: int, mn_major: bool) -> Array:
    at = placed(where.start, where.leading, where.stride, where.base, where.swizzle, rows, mn_major, size)
    made: Array = at[..., None] + np.arange(CHUNK)
    made.flags.writeable = False
    return made


def shared_operand(shared: Array, at: Array, rows: int, kind: str, mn_major: bool) -> Array:
    """The operand [rows, k], exact, whose bytes lie `at` (as `bytes_of` says)."""
    read = chunks_of(shared, at[..., 0])
    if kind in NARROW:
        return narrow(read, kind).reshape(rows, -1)
    read = read.view(UNSIGNED[width(kind)])
    if mn_major:
        return numbers(read.reshape(at.shape[0], -1), kind).T[:rows]
    return numbers(read.reshape(rows, -1), kind)


def tensor_operand(cells: Array, kind: str) -> Array:
    """A [rows, k], exact, of the `CELLS` columns of its rows in tensor memory: uint32 [rows, 8]."""
    return numbers(np.ascontiguousarray(cells).view(UNSIGNED[width(kind)]), kind)


def multiply(does: InstructionDescriptor, a: Array, b: Array, d: Array | None, scale: int = 0) -> Array:
    """The cells of D = A B^T + D 2^-scale, or of A B^T without d: uint32 [m, n]. a [m, k], b [n, k] exact; d: cells.

    ValueError: an accumulator that is not executed (f16, which no known compiler asks for).
    """
    if does.d == "f16":
        raise ValueError("an f16 accumulator in tensor memory is not executed")
    before: Any = None
    if d is not None and does.d == "s32":
        before = d.view(np.int32).astype(np.int64)
    elif d is not None:
        before = d.view(np.float32).astype(np.float64) * 2.0**-scale
    a, b = (-operand if negated else operand for operand, negated in zip((a, b), does.negated, strict=True))
    made = multiply_add(a, b.T, before, does.d, does.saturate)
    return np.ascontiguousarray(made).view(np.uint32)
