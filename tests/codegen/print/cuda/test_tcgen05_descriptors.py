"""Descriptors of tcgen05.mma: values that others' encoders and compilers make, and what reads them back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matrix_descriptors import matrix_descriptor
from twill.codegen.print.cuda.tcgen05_descriptors import OPERANDS, has_shape, instruction_descriptor
from twill.codegen.verify.ptx.units.tcgen05_descriptors import InstructionDescriptor, SharedMatrixDescriptor

GOLDEN = [
    # FlashAttention 4's encoder; the first two also stand in PTX that Gluon 3.9 prints
    (128, 256, "bf16", (False, True), False, 0x08410490),
    (256, 256, "bf16", (False, True), True, 0x10410490),
    (128, 128, "bf16", (False, False), False, 0x08200490),
    (128, 64, "bf16", (False, False), False, 0x08100490),
    (64, 80, "bf16", (False, False), False, 0x04140490),
    (256, 128, "f16", (False, False), True, 0x10200010),
    (128, 256, "e4m3", (False, False), False, 0x08400010),
    (128, 192, "e5m2", (False, False), False, 0x08300490),
]


@pytest.mark.parametrize(("m", "n", "operand", "majors", "pair", "bits"), GOLDEN)
def test_an_instruction_descriptor_is_that_of_other_encoders(
    m: int, n: int, operand: str, majors: tuple[bool, bool], pair: bool, bits: int
) -> None:
    made = instruction_descriptor(m, n, "f32", operand, operand, a_mn_major=majors[0], b_mn_major=majors[1], pair=pair)
    assert made == bits
    kind, _ = OPERANDS[operand]
    wanted = InstructionDescriptor("f32", operand, operand, (False, False), majors, m, n)
    assert InstructionDescriptor.decoded(bits, kind) == wanted


@given(
    st.sampled_from(sorted(OPERANDS)), st.sampled_from(sorted(OPERANDS)), st.sampled_from(["f16", "f32", "s32"]),
    st.sampled_from([64, 128, 192, 256]), st.integers(1, 34).map(lambda n: 8 * n), st.booleans(), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_what_is_encoded_is_read_back_and_the_rest_is_refused(
    a: str, b: str, d: str, m: int, n: int, along_m: bool, along_n: bool, pair: bool
) -> None:
    kind = OPERANDS[a][0]
    try:
        bits = instruction_descriptor(m, n, d, a, b, a_mn_major=along_m, b_mn_major=along_n, pair=pair)
    except ValueError:
        small = ("e2m3", "e3m2", "e2m1")
        accumulates = {"tf32": ("f32",), "i8": ("s32",)}.get(kind, ("f16", "f32"))
        assert (
            kind != OPERANDS[b][0] or d not in accumulates or not has_shape(kind, m, n, pair)
            or along_m and a in small or along_n and b in small
        )  # fmt: skip
        return
    assert InstructionDescriptor.decoded(bits, kind) == InstructionDescriptor(
        d, a, b, (False, False), (along_m, along_n), m, n
    )


@pytest.mark.parametrize(
    ("kind", "m", "n", "pair", "exists"),
    [("f16", 64, 8, False, True), ("f16", 64, 80, False, True), ("f16", 128, 8, False, False),
     ("f16", 128, 80, False, True), ("f16", 192, 80, False, False), ("f16", 128, 272, False, False),
     ("f16", 256, 256, False, False), ("f16", 256, 256, True, True), ("f16", 64, 64, True, False),
     ("i8", 128, 8, False, True), ("i8", 128, 24, False, False), ("i8", 256, 48, True, False),
     ("i8", 256, 64, True, True)],
)  # fmt: skip
def test_which_shapes_exist(kind: str, m: int, n: int, pair: bool, exists: bool) -> None:
    assert has_shape(kind, m, n, pair) == exists


def test_a_matrix_descriptor_is_that_of_gluon() -> None:
    """A along K has the high word 0x40004040; B of 64 x 256 along N has offsets of 8192 and 1024 bytes."""
    assert matrix_descriptor(0, 0, 1024, 128) >> 32 == 0x40004040
    assert matrix_descriptor(0x8000, 8192, 1024, 128) == 0x40004040_02000800


@given(
    st.integers(0, (1 << 14) - 1), st.integers(0, (1 << 14) - 1), st.integers(0, (1 << 14) - 1),
    st.sampled_from([0, 32, 64, 128]),
)  # fmt: skip
def test_a_matrix_descriptor_is_read_back(address: int, leading: int, stride: int, swizzle: int) -> None:
    bits = matrix_descriptor(16 * address, 16 * leading, 16 * stride, swizzle)
    wanted = SharedMatrixDescriptor(16 * address, 16 * leading, 16 * stride, 0, swizzle)
    assert SharedMatrixDescriptor.decoded(bits) == wanted
