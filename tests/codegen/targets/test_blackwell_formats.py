"""Promises of products of further types for the B200: each computes its tile program, and what is misread is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from tests import blackwell, blackwell_table
from tests.blackwell import FP4_FP8_WIDE, FP8_FP4, INT8, INT8_WIDE, PLAIN, PLAIN_NVFP4, PLAIN_WIDE, TF32, TF32_WIDE
from tests.codegen.targets.test_blackwell import Faulty, changed, instead, other
from tests.golden_schedules import Example, kernel
from twill import exc
from twill.cli import main
from twill.codegen.print.cuda.tcgen05_descriptors import instruction_descriptor, scaled_instruction_descriptor
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.verify.ptx.units import block_scales, fragments, tcgen05
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Number
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.kernel.specialization import problem_of
from twill.ptx import formats
from twill.runtime.arguments import BoundArguments
from twill.runtime.plan import map_parameters
from twill.runtime.tensor import TensorView
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")

# Two tiles along each axis, or one row of them, the last one ragged, and so many steps that rings come round.
SIZES: dict[Example, Mapping[str, int]] = {
    TF32: {"M": 144, "N": 140, "K": 268},
    TF32_WIDE: {"M": 8, "N": 268, "K": 204},
    INT8: {"M": 144, "N": 140, "K": 1040},
    INT8_WIDE: {"M": 8, "N": 272, "K": 592},
    PLAIN: {"M": 144, "N": 144, "K": 848},
    PLAIN_WIDE: {"M": 8, "N": 272, "K": 592},
    PLAIN_NVFP4: {"M": 8, "N": 144, "K": 1568},
    FP8_FP4: {"M": 144, "N": 144, "K": 1152},
    FP4_FP8_WIDE: {"M": 8, "N": 272, "K": 640},
}
# The same of two CTAs, the last pair of which lacks its second instance.
PAIRS: dict[Example, Mapping[str, int]] = {
    TF32: {"M": 272, "N": 140, "K": 268},
    FP8_FP4: {"M": 272, "N": 144, "K": 1152},
    INT8: {"M": 272, "N": 140, "K": 1040},
}


def said(example: Example, sizes: Mapping[str, int], change: Callable[[str], str] = str, cluster: int = 1) -> list[str]:
    made, problem = blackwell.compiled(example, cluster), problem_of(kernel(example).specialization)
    assert problem is not None
    data = blackwell_table.telling(made.program.program)
    given = launch(made.program.program, problem.case(dict(sizes)), data=data)
    return execute.verified(change(made.build.ptx), made.manifest, made.program, given, 2).said()


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_what_is_emitted_computes_its_tile_program(example: Example) -> None:
    assert said(example, SIZES[example]) == []


@pytest.mark.parametrize("example", PAIRS, ids=[example.name for example in PAIRS])
def test_two_ctas_multiply_together(example: Example) -> None:
    assert said(example, PAIRS[example], cluster=2) == []
    assert "tcgen05.mma.cta_group::2" in blackwell.compiled(example, 2).build.ptx


@pytest.mark.parametrize("example", SIZES, ids=[example.name for example in SIZES])
def test_rings_come_round_at_these_sizes(example: Example) -> None:
    constants = dict(kernel(example).specialization.constexprs)
    depths = [ring.depth for ring in blackwell.lowered(example).arefs if ring.transport != "mma"]
    assert SIZES[example]["K"] > max(depths) * int(str(constants["BLOCK_K"]))


# ---------------------------------------------------------------- tf32


def test_a_product_of_f32_is_one_of_kind_tf32_with_8_of_k_each() -> None:
    made = blackwell.compiled(TF32)
    assert "tcgen05.mma.cta_group::1.kind::tf32" in made.build.ptx
    does = instruction_descriptor(128, 128, "f32", "tf32", "tf32")
    assert does == 1 << 4 | 2 << 7 | 2 << 10 | 16 << 17 | 8 << 24  # D f32, A and B tf32, N / 8, M / 16
    assert f"{does:#010x}" in made.printed.text and "ks < 4" in made.printed.text
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)


def test_digits_that_tf32_lacks_make_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that read all of an f32 would not do for the tile program, whose products cut operands off."""
    right = formats.decode
    monkeypatch.setattr(fragments, "decode", lambda bits, kind: right(bits, "f32" if kind == "tf32" else kind))
    assert said(TF32, {"M": 64, "N": 64, "K": 256})


TF32_PRINTED = {
    "elements are bf16": other(rf"\b{instruction_descriptor(128, 128, 'f32', 'tf32', 'tf32')}\b",
                               str(instruction_descriptor(128, 128, "f32", "bf16", "bf16"))),
    "B lies along N": other(rf"\b{instruction_descriptor(128, 128, 'f32', 'tf32', 'tf32')}\b",
                            str(instruction_descriptor(128, 128, "f32", "tf32", "tf32", b_mn_major=True))),
    "the kind is f16": other(r"kind::tf32", "kind::f16"),
    "a step along K is one of 16 bytes": other(r"(add\.s64\s+%rd\d+, %rd\d+, )2;", r"\g<1>1;"),
}  # fmt: skip


@pytest.mark.parametrize("name", TF32_PRINTED)
def test_a_fault_of_printed_tf32_is_found_by_the_executor(name: str) -> None:
    assert said(TF32, {"M": 64, "N": 64, "K": 40}, TF32_PRINTED[name])


TF32_FAULTS: dict[str, tuple[Faulty, str]] = {
    "a product has half of its depth": (
        instead(ir.TensorMultiply, lambda stmt: replace(stmt, depth=16)), "layout",  # type: ignore[call-arg]
    ),
    "operands are not waited for": (instead(ir.Get, lambda stmt: None), "phase"),
}  # fmt: skip


@pytest.mark.parametrize("name", TF32_FAULTS)
def test_a_fault_in_a_product_of_tf32_is_found_by_the_abstract_machine(name: str) -> None:
    fault, rule = TF32_FAULTS[name]
    found = verify(changed(blackwell.lowered(TF32), "mma", fault), problem_of(kernel(TF32).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


# ---------------------------------------------------------------- int8

OF_INT8 = instruction_descriptor(128, 128, "s32", "s8", "s8")


def test_a_product_of_int8_is_one_of_kind_i8_with_32_of_k_each() -> None:
    made = blackwell.compiled(INT8)
    assert "tcgen05.mma.cta_group::1.kind::i8" in made.build.ptx
    assert OF_INT8 == 2 << 4 | 1 << 7 | 1 << 10 | 16 << 17 | 8 << 24  # D s32, A and B s8, N / 8, M / 16
    assert f"{OF_INT8:#010x}" in made.printed.text and "ks < 4" in made.printed.text
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)
    assert not made.manifest.changes


def test_what_has_no_products_of_int8_gets_those_of_bf16() -> None:
    """Modules of Gluon."""
    made = (kernel(INT8).on(blackwell.machine(), integers=integers).program for integers in (False, True))
    multiplied = [
        [program.type_of(op.operands[0]).element for op in program.ops() if op.kind == "dot"] for program in made
    ]
    assert multiplied == [["bf16"], ["i8"]]


WRONG = {
    "operands have no sign": instruction_descriptor(128, 128, "s32", "u8", "u8"),
    "A has no sign": instruction_descriptor(128, 128, "s32", "u8", "s8"),
    "B lies along N": instruction_descriptor(128, 128, "s32", "s8", "s8", b_mn_major=True),
}
INT8_PRINTED = {
    **{name: other(rf"\b{OF_INT8}\b", str(wrong)) for name, wrong in WRONG.items()},
    "the kind is f8f6f4": other(r"kind::i8", "kind::f8f6f4"),
    "a step along K is one of 16 bytes": other(r"(add\.s64\s+%rd\d+, %rd\d+, )2;", r"\g<1>1;"),
    "the sum is never begun": other(r"setp\.ne\.b32 p, (%r\d+), 0;", r"setp.eq.b32 p, \1, \1;"),
}  # fmt: skip


@pytest.mark.parametrize("name", INT8_PRINTED)
def test_a_fault_of_printed_int8_is_found_by_the_executor(name: str) -> None:
    assert said(INT8, {"M": 64, "N": 64, "K": 144}, INT8_PRINTED[name])


INT8_FAULTS: dict[str, tuple[Faulty, str]] = {
    "a product has half of its depth": (
        instead(ir.TensorMultiply, lambda stmt: replace(stmt, depth=64)), "layout",  # type: ignore[call-arg]
    ),
    "operands are not waited for": (instead(ir.Get, lambda stmt: None), "phase"),
    "the sum is always added to": (
        instead(ir.TensorMultiply, lambda stmt: replace(stmt, accumulate=Number(1, "i1"))), "values",  # type: ignore[call-arg]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INT8_FAULTS)
def test_a_fault_in_a_product_of_int8_is_found_by_the_abstract_machine(name: str) -> None:
    fault, rule = INT8_FAULTS[name]
    found = verify(changed(blackwell.lowered(INT8), "mma", fault), problem_of(kernel(INT8).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


# ---------------------------------------------------------------- refused


def test_a_depth_that_is_no_multiple_of_a_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    types = ["--sig", "a_desc=tensordesc<fp32[128,36]>", "--sig", "b_desc=tensordesc<fp32[128,36]>"]
    given = [TF32.file, "--spec", TF32.spec, "--machine", "b200", "--no-store", "--const", "BLOCK_K=36", *types]
    assert main(["emit", *given, "--ir"]) == 2
    found = capsys.readouterr().err
    assert re.search(
        r"format_kernels\.py:\d+: `acc` is a product over 36 of f32, and Blackwell has multiples of 8", found
    )


# ---------------------------------------------------------------- elements of 4 bits beside others of 8


@pytest.mark.parametrize(("example", "narrow"), [(FP8_FP4, "b"), (FP4_FP8_WIDE, "a")], ids=["fp8-fp4", "fp4-fp8"])
def test_elements_of_4_bits_have_a_place_of_8_beside_others_of_8(example: Example, narrow: str) -> None:
    made = blackwell.compiled(example)
    buffers = {buffer.name: buffer for buffer in made.program.buffers}
    constants = dict(kernel(example).specialization.constexprs)
    rows, k = (int(str(constants[name])) for name in (f"BLOCK_{'M' if narrow == 'a' else 'N'}", "BLOCK_K"))
    assert buffers[narrow].element == "e2m1" and buffers[narrow].shape == (rows, k)
    (entry,) = (entry for entry in made.manifest.maps if entry.element == "e2m1")
    assert entry.argument == f"{narrow}_desc" and entry.box[-1] == 128 and entry.swizzle == 128
    (ring,) = (ring for ring in made.program.arefs if ring.name == narrow)
    assert ring.bytes == rows * k // 2  # that a copy counts, of twice as many in shared memory
    assert "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale" in made.build.ptx
    assert parse(text(made.program), made.program.program) == made.program
    assert (made.facts.spill_stores, made.facts.spill_loads) == (0, 0)


def test_a_map_of_elements_of_4_bits_has_the_sizes_and_strides_of_bytes_twice() -> None:
    (entry,) = (entry for entry in blackwell.compiled(FP8_FP4).manifest.maps if entry.element == "e2m1")
    made = map_parameters(entry, bound((136, 192), 192))
    assert (made.sizes, made.strides, made.box) == ((384, 136), (192,), (128, 128))


@pytest.mark.parametrize(
    ("shape", "stride", "said"),
    [((128, 96), 96, "has rows of 192 elements of 4 bits"), ((128, 128), 144, "steps by 144 bytes in dimension 0")],
)
def test_tensors_that_no_copy_unpacks_are_refused_when_a_kernel_is_launched(
    shape: tuple[int, int], stride: int, said: str
) -> None:
    (entry,) = (entry for entry in blackwell.compiled(FP8_FP4).manifest.maps if entry.element == "e2m1")
    with pytest.raises(exc.MisalignedTensor, match=said):
        map_parameters(entry, bound(shape, stride))


def bound(shape: tuple[int, int], stride: int) -> BoundArguments:
    """B of such a shape."""
    scalars = {"b_desc.shape.0": shape[0], "b_desc.shape.1": shape[1], "b_desc.stride.0": stride, "b_desc.stride.1": 1}
    return BoundArguments(scalars, {"b_desc": TensorView(1 << 20, "u8", shape, (stride, 1), 0)})


MIXED_IDESC = scaled_instruction_descriptor(128, 128, "f8e4m3", "i8", operand_b="e2m1")
MIXED_PRINTED = {
    "B is e4m3": other(rf"\b{MIXED_IDESC}\b", str(MIXED_IDESC & ~(7 << 10))),
    "B is e3m2": other(rf"\b{MIXED_IDESC}\b", str(MIXED_IDESC & ~(1 << 10))),
    "A is e5m2": other(rf"\b{MIXED_IDESC}\b", str(MIXED_IDESC | 1 << 7)),
    "bytes in shared memory are awaited": other(r"(mov\.b32\s+%r\d+, )16384;", r"\g<1>32768;"),
    "the second box begins at its byte": other(r"(add\.s32\s+%r\d+, %r\d+, )128;", r"\g<1>64;"),
}


@pytest.mark.parametrize("name", MIXED_PRINTED)
def test_a_fault_of_a_printed_product_of_4_and_8_bits_is_found_by_the_executor(name: str) -> None:
    assert said(FP8_FP4, {"M": 64, "N": 64, "K": 512}, MIXED_PRINTED[name])


@pytest.mark.parametrize("misread", ["halves of bytes", "places in 16 bytes"])
def test_elements_of_4_bits_that_are_misread_make_a_product_wrong(
    misread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = block_scales.narrow

    def wrong(chunks: Any, kind: str) -> Any:
        swapped = chunks >> 4 | (chunks & 0xF) << 4 if misread == "halves of bytes" else np.roll(chunks, 8, axis=-1)
        return right(np.ascontiguousarray(swapped.astype(np.uint8)), kind)

    monkeypatch.setattr(tcgen05, "narrow", wrong)
    assert said(FP8_FP4, {"M": 64, "N": 64, "K": 256})


MIXED_FAULTS: dict[str, tuple[Faulty, str]] = {
    "a product reads A as another type": (
        instead(ir.TensorMultiply, lambda stmt: replace(stmt, operand="f8e5m2")), "layout",  # type: ignore[call-arg]
    ),
    "it is one without scales": (
        instead(ir.TensorMultiply, lambda stmt: replace(stmt, block=0, of_a=None, of_b=None)),  # type: ignore[call-arg]
        "layout",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED_FAULTS)
def test_a_fault_in_a_product_of_4_and_8_bits_is_found_by_the_abstract_machine(name: str) -> None:
    fault, rule = MIXED_FAULTS[name]
    found = verify(changed(blackwell.lowered(FP8_FP4), "mma", fault), problem_of(kernel(FP8_FP4).specialization))
    assert rule in {violation.rule for violation in found}, [v.describe() for v in found]


NARROW_TYPES = {"a": "fp8e4nv[128,128]", "b": "u8[128,64]", "c": "bf16[128,128]",
                **dict.fromkeys(("sa", "sb"), "u8[1,1,1,2,256]")}  # fmt: skip


def narrow(kernel: str, k: int = 128, types: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    given = [
        word for name, kind in {**NARROW_TYPES, **types}.items() for word in ("--sig", f"{name}=tensordesc<{kind}>")
    ]
    sizes = ["--sig", "K=i32", "--const", "BM=128", "--const", "BN=128", "--const", f"BK={k}"]
    return ["emit", f"tests/format_kernels.py::{kernel}", *given, *sizes, "--machine", "b200", "--no-store"]


def test_one_operand_of_4_bits_is_multiplied_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*narrow("one_b_twice"), "--execute"]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kernel", "wrong"),
    [("changed_b", "is not loaded by the TMA (it is computed)"), ("b_read_otherwise", "is read otherwise, too")],
)
def test_an_operand_of_4_bits_that_no_copy_unpacks_is_refused(
    kernel: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*narrow(kernel), "--ir"]) == 2
    found = capsys.readouterr().err
    assert re.search(rf"format_kernels\.py:\d+: operand B of a product e4m3 x e2m1, which {re.escape(wrong)}", found)


def test_operands_of_4_bits_in_tiles_of_64_along_k_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    types = {"a": "fp8e4nv[128,64]", "b": "u8[128,32]", "sa": "u8[128,2]", "sb": "u8[128,2]"}
    assert main([*narrow("plain_scales_of_b", 64, types), "--ir"]) == 2
    found = capsys.readouterr().err
    wrong = "operand B of a product e4m3 x e2m1, which has 64 elements along K, and a copy has 128, is not supported"
    assert re.search(rf"format_kernels\.py:\d+: {wrong}", found)


def test_plain_scales_of_4_and_8_bits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*narrow("plain_scales_of_b", types=dict.fromkeys(("sa", "sb"), "u8[128,4]")), "--execute"]) == 0
    assert "equal to the tile program, nothing found" in capsys.readouterr().out


def test_scales_of_type_e4m3_beside_8_bits_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    types = dict.fromkeys(("sa", "sb"), "fp8e4nv[128,8]")
    assert main([*narrow("plain_scales_of_b", types=types), "--ir"]) == 2
    found = capsys.readouterr().err
    assert re.search(
        r"format_kernels\.py:\d+: unsupported operation: tl.dot_scaled of e4m3 x e2m1 in blocks of 16", found
    )
