"""Descriptors of tcgen05.mma as they are read: each field at its bits, and what no descriptor says."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from twill.codegen.verify.ptx.units.tcgen05_descriptors import (
    InstructionDescriptor,
    SharedMatrixDescriptor,
    has_columns,
)
from twill.codegen.verify.ptx.units.wgmma import MatrixDescriptor

PLAIN = 0x08200490  # bf16, 128 x 128, both along K
INTEGERS = 0x082004A0  # s8, else the same


@pytest.mark.parametrize(
    ("bits", "field", "value"),
    [(PLAIN & ~0x30, "d", "f16"), (PLAIN & ~0x380, "a", "f16"), (PLAIN & ~0x1C00, "b", "f16"),
     (PLAIN | 1 << 13, "negated", (True, False)), (PLAIN | 1 << 14, "negated", (False, True)),
     (PLAIN | 1 << 15, "mn_major", (True, False)), (PLAIN | 1 << 16, "mn_major", (False, True)),
     (PLAIN | 1 << 17, "n", 136), (PLAIN | 1 << 24, "m", 144)],
)  # fmt: skip
def test_a_field_of_an_instruction_descriptor_is_at_its_bits(bits: int, field: str, value: object) -> None:
    plain, read = (InstructionDescriptor.decoded(one, "f16") for one in (PLAIN, bits))
    assert getattr(read, field) == value != getattr(plain, field)


def test_integers_may_saturate_and_are_not_negated() -> None:
    assert InstructionDescriptor.decoded(INTEGERS | 1 << 3, "i8").saturate
    for bit in (13, 14):
        with pytest.raises(ValueError, match="no negation"):
            InstructionDescriptor.decoded(INTEGERS | 1 << bit, "i8")


@pytest.mark.parametrize(
    ("kind", "bits"),
    [("f16", PLAIN ^ 0x30), ("f8f6f4", 0x08200020), ("tf32", 0x08200900), ("i8", INTEGERS ^ 0x30),
     ("i8", INTEGERS & ~0x30)],
)  # fmt: skip
def test_a_sum_of_a_type_that_a_kind_has_not_is_refused(kind: str, bits: int) -> None:
    """s32 of floats, f16 of tf32, f32 and f16 of integers."""
    with pytest.raises(ValueError, match=f"kind {kind} has no types"):
        InstructionDescriptor.decoded(bits, kind)


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 6, 23, 29, 30, 31])
def test_an_instruction_descriptor_with_bits_that_mean_something_else_is_refused(bit: int) -> None:
    with pytest.raises(ValueError, match="instruction descriptor"):
        InstructionDescriptor.decoded(PLAIN | 1 << bit, "f16")


def test_a_type_that_a_kind_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="kind tf32 has no types"):
        InstructionDescriptor.decoded(PLAIN, "tf32")


@pytest.mark.parametrize(
    ("kind", "m", "ctas", "from_tensor", "columns"),
    [("f16", 128, 1, False, range(16, 257, 16)), ("f8f6f4", 64, 1, False, range(8, 257, 8)),
     ("tf32", 256, 2, False, range(16, 257, 16)), ("f16", 256, 2, True, range(32, 257, 32)),
     ("i8", 64, 1, False, (8, 24, *range(16, 257, 16))), ("i8", 128, 1, False, range(16, 257, 16)),
     ("i8", 256, 2, False, range(32, 257, 32)), ("mxf8f6f4", 128, 1, False, range(8, 257, 8)),
     ("mxf4nvf4", 256, 2, False, range(16, 257, 16))],
)  # fmt: skip
def test_how_many_columns_a_product_can_have(
    kind: str, m: int, ctas: int, from_tensor: bool, columns: Iterable[int]
) -> None:
    assert {n for n in range(0, 513, 4) if has_columns(kind, m, n, ctas, from_tensor)} == {*columns}


@pytest.mark.parametrize("swizzle", [0, 1, 2, 3])
def test_a_matrix_descriptor_is_that_of_hopper_with_a_version(swizzle: int) -> None:
    hopper = 0x123 | 0x45 << 16 | 0x67 << 32 | 5 << 49 | swizzle << 62
    old, new = MatrixDescriptor.decoded(hopper), SharedMatrixDescriptor.decoded(hopper | 1 << 46)
    assert (old.start, old.leading, old.stride, old.base, old.swizzle) == (
        new.start, new.leading, new.stride, new.base, new.swizzle,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bits", "said"),
    [(0, "version 0"), (2 << 46, "version 2"), (1 << 46 | 1 << 52, "is an address"), (1 << 46 | 1 << 61, "atoms of 32"),
     (1 << 46 | 3 << 61, "no swizzle 3"), (1 << 46 | 1 << 14, "not zero"), (1 << 46 | 1 << 60, "not zero")],
)  # fmt: skip
def test_a_matrix_descriptor_that_is_not_executed_is_refused(bits: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SharedMatrixDescriptor.decoded(bits)


SCALED = 0x08A00000  # e4m3, 128 x 128, scales ue8m0


@pytest.mark.parametrize(
    ("kind", "bits", "field", "value"),
    [("mxf8f6f4", SCALED | 5 << 7, "a", "e2m1"), ("mxf8f6f4", SCALED | 1 << 10, "b", "e5m2"),
     ("mxf8f6f4", SCALED | 3 << 29, "scale_ids", (3, 0)), ("mxf8f6f4", SCALED | 2 << 4, "scale_ids", (0, 2)),
     ("mxf8f6f4", SCALED ^ 1 << 23, "scale", "ue4m3"), ("mxf8f6f4", SCALED | 1 << 17, "n", 136)],
)  # fmt: skip
def test_a_field_of_a_descriptor_with_block_scales_is_at_its_bits(
    kind: str, bits: int, field: str, value: object
) -> None:
    plain, read = (InstructionDescriptor.decoded(one, kind) for one in (SCALED, bits))
    assert getattr(read, field) == value != getattr(plain, field)
    assert (read.d, read.m, read.scale[:2]) == ("f32", 128, "ue")


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 6, 24, 25, 26, 31])
def test_a_descriptor_with_block_scales_has_bits_that_must_be_zero(bit: int) -> None:
    with pytest.raises(ValueError, match="instruction descriptor"):
        InstructionDescriptor.decoded(SCALED | 1 << bit, "mxf8f6f4")
