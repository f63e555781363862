"""`tcgen05.mma` as numbers: operands through their descriptors, signs, scales, saturation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.matrix_descriptors import matrix_descriptor
from twill.codegen.verify.ptx.units.tcgen05 import bytes_of, multiply, shared_operand, tensor_operand
from twill.codegen.verify.ptx.units.tcgen05_descriptors import InstructionDescriptor
from twill.ptx.formats import encode

RNG = np.random.default_rng(1)


def does(
    d: str = "f32", a: str = "bf16", negated: tuple[bool, bool] = (False, False), saturate: bool = False
) -> InstructionDescriptor:
    return InstructionDescriptor(d, a, a, negated, (False, False), 64, 8, saturate)


@pytest.mark.parametrize("kind", ["e4m3", "bf16", "s8"])
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_an_operand_along_m_is_read_as_the_transpose_of_its_bytes(kind: str, swizzle: int) -> None:
    """Rows of K hold a swizzle's width of M, one after the other, their chunks of 16 bytes exchanged."""
    size, depth = (2, 16) if kind == "bf16" else (1, 32)
    rows = 2 * swizzle // size
    bits = RNG.integers(0, 60, (depth, rows)).astype(np.uint16 if size == 2 else np.uint8)
    shared = np.zeros(1 << 16, np.uint8)
    leading, stride = depth * swizzle, 8 * swizzle
    for k in range(depth):
        for chunk in range(rows * size // 16):
            block, within = divmod(chunk, swizzle // 16)
            plain = block * leading + k * swizzle + 16 * within
            place = plain ^ (plain >> 7 & swizzle // 16 - 1) << 4
            part = bits[k].view(np.uint8)[16 * chunk : 16 * chunk + 16]
            shared[place : place + 16] = part
    at = bytes_of(matrix_descriptor(0, leading, stride, swizzle), rows, kind, True)
    read = shared_operand(shared, at, rows, kind, True)
    assert (read == tensor_operand(np.ascontiguousarray(bits.T).view(np.uint32), kind)).all()


def test_signs_scales_and_saturation() -> None:
    a, b = RNG.integers(-9, 9, (64, 16)).astype(np.float64), RNG.integers(-9, 9, (8, 16)).astype(np.float64)
    d = encode(RNG.integers(-9, 9, (64, 8)).astype(np.float32), "f32")
    before = d.view(np.float32).astype(np.float64)
    assert (multiply(does(), a, b, None).view(np.float32) == a @ b.T).all()
    assert (multiply(does(negated=(True, False)), a, b, d).view(np.float32) == before - a @ b.T).all()
    assert (multiply(does(negated=(True, True)), a, b, d, 3).view(np.float32) == before / 8 + a @ b.T).all()
    whole = np.full((64, 8), 2**31 - 1, np.int64).astype(np.uint32)
    ones = np.ones((64, 32), np.int64), np.ones((8, 32), np.int64)
    assert (multiply(does("s32", "s8", saturate=True), *ones, whole) == 2**31 - 1).all()
    assert (multiply(does("s32", "s8"), *ones, whole) == 2**31 + 31).all()


def test_what_is_not_executed_is_said() -> None:
    with pytest.raises(ValueError, match="f16 accumulator"):
        multiply(does("f16"), np.zeros((64, 16)), np.zeros((8, 16)), None)
    with pytest.raises(ValueError, match="operands e2m3 are not executed"):
        bytes_of(1 << 46, 64, "e2m3", False)
    with pytest.raises(ValueError, match="operands e2m1 lie along K"):
        bytes_of(1 << 46, 64, "e2m1", True)
