"""Every bit of a descriptor and of an address of tensor memory that is taken for its opposite makes a program of others
wrong: numbers that differ, or a finding."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import numpy as np
import pytest

from tests.codegen.verify.ptx import test_strangers_blackwell as strangers
from tests.codegen.verify.ptx import test_strangers_block_scales as scaled
from tests.codegen.verify.ptx.test_strangers_blackwell import KNOWN, Bits, pointers, random, stock
from tests.ptx_programs import rules
from twill.codegen.verify.ptx.run import Result
from twill.codegen.verify.ptx.tcgen05_memory import TensorMemory
from twill.codegen.verify.ptx.units.tcgen05_descriptors import InstructionDescriptor, SharedMatrixDescriptor

pytestmark = pytest.mark.usefixtures("quiet")
quiet = strangers.quiet

Patch = pytest.MonkeyPatch
Fields = Mapping[str, range]


def integers() -> tuple[Result, Bits]:
    """C + A B of s8, C almost as large as a number of 32 bits can be: sums wrap around."""
    a, b = random(1, "s8", 128, 64), random(2, "s8", 64, 64)
    c = np.where(np.indices((128, 64)).sum(0) % 2, 2**31 - 1, -(2**31)).astype(np.int32)
    kernel = stock("onto", "*i8", ())
    result = strangers.run(kernel, pointers("a", "b", "c"), {"a": a, "b": b, "c": c.copy()}, (1, 1, 1))
    wanted = c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)
    return result, wanted.astype(np.int32)


def wrong_integers() -> bool:
    result, wanted = integers()
    return bool(rules(result) - KNOWN) or bool((result.tensors["c"] != wanted).any())


def wrong_gemm() -> bool:
    """One tile; if that is right, several: columns too many lie where the next accumulator is."""
    one_tile = strangers.is_wrong(*strangers.gluon_gemm(m=128, n=128, k=64))
    return one_tile or strangers.is_wrong(*strangers.gluon_gemm())


def wrong_scaled_gemm() -> bool:
    return scaled.is_wrong(*scaled.by_descriptors(scaled.MXFP8, (128, 128, 128)))


def wrong_attention() -> bool:
    return strangers.is_wrong(*strangers.attention(128))


WRONG = {"gemm": wrong_gemm, "integers": wrong_integers, "scaled gemm": wrong_scaled_gemm, "attention": wrong_attention}


@pytest.mark.parametrize("program", WRONG)
def test_programs_of_others_are_right_as_they_are(program: str) -> None:
    assert not WRONG[program]()


# ---------------------------------------------------------------- instruction descriptors

COMMON: Fields = {
    "sparsity": range(3), "type of A": range(7, 10), "type of B": range(10, 13), "negated A": range(13, 14),
    "negated B": range(14, 15), "A along M": range(15, 16), "B along N": range(16, 17), "N": range(17, 23),
    "M": range(24, 29),
}  # fmt: skip
PLAIN: Fields = {
    **COMMON, "saturation": range(3, 4), "type of D": range(4, 6), "reserved 6": range(6, 7),
    "reserved 23": range(23, 24), "of others": range(29, 32),
}  # fmt: skip
SCALED: Fields = {
    **COMMON, "reserved 3": range(3, 4), "byte of B's scales": range(4, 6), "reserved 6": range(6, 7),
    "type of scales": range(23, 24), "byte of A's scales": range(29, 31), "K": range(31, 32),
}  # fmt: skip
OF_INSTRUCTIONS = {"gemm": PLAIN, "integers": PLAIN, "scaled gemm": SCALED}


def every(fields: Mapping[str, Fields]) -> list[tuple[str, str]]:
    return [(program, field) for program, given in fields.items() for field in given]


@pytest.mark.parametrize(("program", "field"), every(OF_INSTRUCTIONS))
def test_a_bit_of_an_instruction_descriptor(program: str, field: str, monkeypatch: Patch) -> None:
    right = InstructionDescriptor.decoded
    for bit in OF_INSTRUCTIONS[program][field]:
        wrong = lambda bits, kind, bit=bit: right(bits ^ 1 << bit, kind)  # noqa: E731
        monkeypatch.setattr(InstructionDescriptor, "decoded", wrong)
        assert WRONG[program](), bit


@pytest.mark.parametrize("program", OF_INSTRUCTIONS)
def test_fields_of_an_instruction_descriptor_are_all_its_bits(program: str) -> None:
    assert sorted(bit for bits in OF_INSTRUCTIONS[program].values() for bit in bits) == [*range(32)]


# ---------------------------------------------------------------- matrices in shared memory

WHERE: Fields = {
    "address": range(14), "reserved 14": range(14, 16), "leading offset": range(16, 30), "reserved 30": range(30, 32),
    "stride": range(32, 46), "version": range(46, 49), "base offset": range(49, 52), "mode": range(52, 53),
    "reserved 53": range(53, 61), "swizzle": range(61, 64),
}  # fmt: skip
UNUSED = {"leading offset", "base offset"}
OF_MATRICES = {"gemm": WHERE, "scaled gemm": {name: bits for name, bits in WHERE.items() if name not in UNUSED}}
"""Of the GEMM those of its operands, B along N; of that with scales those of copies to tensor memory: 16 bytes of each
row, which have no leading offset, and without a swizzle, so with no base offset."""


@pytest.mark.parametrize(("program", "field"), every(OF_MATRICES))
def test_a_bit_of_a_matrix_descriptor(program: str, field: str, monkeypatch: Patch) -> None:
    right = SharedMatrixDescriptor.decoded
    for bit in OF_MATRICES[program][field]:

        def wrong(bits: int, bit: int = bit) -> SharedMatrixDescriptor:
            of_operands = bits >> 61 != 0
            return right(bits ^ 1 << bit if of_operands == (program == "gemm") else bits)

        monkeypatch.setattr(SharedMatrixDescriptor, "decoded", wrong)
        assert WRONG[program](), bit


def test_fields_of_a_matrix_descriptor_are_all_its_bits() -> None:
    assert sorted(bit for bits in WHERE.values() for bit in bits) == [*range(64)]


# ---------------------------------------------------------------- addresses of tensor memory

ADDRESS: Fields = {"column": range(9), "no column": range(9, 16), "lane": range(16, 23), "no lane": range(23, 32)}
USES = {
    "_result": "gemm", "_tensor": "attention", "moves": "gemm", "_cells": "scaled gemm", "scaling": "scaled gemm",
}  # fmt: skip
"""What asks where an address is: D, A, loads and stores, copies, scales; and a program that has it."""


@pytest.mark.parametrize("field", ADDRESS)
@pytest.mark.parametrize("use", USES)
def test_a_bit_of_an_address_of_tensor_memory(use: str, field: str, monkeypatch: Patch) -> None:
    right = TensorMemory.place
    for bit in ADDRESS[field]:

        def wrong(self: TensorMemory, address: int, columns: Bits, bit: int = bit) -> tuple[int, Bits]:
            mine = sys._getframe(1).f_code.co_name == use
            return right(self, address ^ 1 << bit if mine else address, columns)

        monkeypatch.setattr(TensorMemory, "place", wrong)
        assert WRONG[USES[use]](), bit
