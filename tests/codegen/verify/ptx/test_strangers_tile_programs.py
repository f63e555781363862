"""Kernels with scales of blocks: tile programs compute what Triton's own PTX for sm_100a does, descriptors are its."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests import stranger_kernels
from tests.codegen.verify.ptx.test_strangers_block_scales import (
    MIXED,
    MXFP4,
    MXFP8,
    NVFP4,
    Case,
    in_blocks,
    stock,
    tensors,
)
from twill.codegen.print.cuda.tcgen05_descriptors import scaled_instruction_descriptor
from twill.kernel.specialization import resolve
from twill.ptx.formats import decode
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret import sequential
from twill.tile.interpret.arithmetic import Array
from twill.tile.rewrite.pipeline import rewrite
from twill.tile.translate.translate import tile_program


def held(bits: Array, element: str) -> Array:
    """Flat, as the interpreter holds elements."""
    return (bits.view(np.int8) if element == "u8" else decode(bits, "e4m3").astype(np.float32)).reshape(-1).copy()


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(("case", "k"), [(MXFP8, 128), (MXFP4, 256), (NVFP4, 256), (MIXED, 128)])
def test_a_kernel_of_tensor_maps_computes_what_its_compiled_code_does(case: Case, k: int, rewritten: bool) -> None:
    """`tests.codegen.verify.ptx.test_strangers_block_scales` holds Triton's own PTX to the same product."""
    of_a, of_b, vec = case
    kinds, scale = {"e4m3": "fp8e4nv", "e2m1": "u8"}, "u8" if vec == 32 else "fp8e4nv"
    per, block = {"e4m3": 1, "e2m1": 2}, f"[1,1,{k // vec // 4},2,256]"
    types = {"a": f"{kinds[of_a]}[128,{k // per[of_a]}]", "b": f"{kinds[of_b]}[128,{k // per[of_b]}]",
             "sa": f"{scale}{block}", "sb": f"{scale}{block}", "c": "fp32[128,128]"}  # fmt: skip
    sig = [*(f"{name}=tensordesc<{kind}>" for name, kind in types.items()), "K=i32"]
    const = ["BLOCK_M=128", "BLOCK_N=128", f"BLOCK_K={k}", f"A={of_a}", f"B={of_b}", f"VEC={vec}"]
    spec = resolve(f"{stranger_kernels.__file__}::scaled_gemm_by_descriptors", sig=sig, const=const)
    program = resolve_accesses(tile_program(spec))
    program = rewrite(program) if rewritten else program
    assert {op.attribute("layout") for op in program.ops() if op.kind == "dot_scaled"} == {
        "chunks" if rewritten else "rows"
    }
    given, wanted = tensors(case, 128, 128, 2 * k)
    given |= {name: in_blocks(given[name]) for name in ("sa", "sb")}
    made = {"a": held(given["a"], kinds[of_a]), "b": held(given["b"], kinds[of_b]),
            "sa": held(given["sa"], scale), "sb": held(given["sb"], scale),
            "c": np.zeros(128 * 128, np.float32)}  # fmt: skip
    shapes = {name: array.shape for name, array in given.items()}
    sequential.run(program, (1, 1, 1), made, {"K": 2 * k, **sequential.descriptor_scalars(program, shapes)})
    assert np.abs(made["c"].reshape(128, 128) - wanted).max() <= 2**-20 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("case", "blocks", "operands", "scale", "first_bytes"),
    [(MXFP8, (128, 128, 128), ("f8e4m3", ""), "i8", (0, 1, 2, 3)), (NVFP4, (128, 128, 256), ("i8", ""), "f8e4m3", (0,)),
     (MXFP4, (128, 256, 256), ("i8", ""), "i8", (0, 2)),
     (MIXED, (128, 256, 128), ("f8e4m3", "e2m1"), "i8", (0, 1, 2, 3))],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
def test_instruction_descriptors_are_those_of_triton(
    case: Case, blocks: tuple[int, int, int], operands: tuple[str, str], scale: str, first_bytes: tuple[int, ...]
) -> None:
    ptx = stock(case, blocks, described=True).asm["ptx"]
    asked = set(re.findall(r"tcgen05\.mma\S* \[[^]]*\], %rd\d+, %rd\d+, (%r\d+), \[", ptx))
    found = {int(number) for name, number in re.findall(r"mov\.b32\s+(%r\d+), (-?\d+);", ptx) if name in asked}
    mine = scaled_instruction_descriptor(128, blocks[1], operands[0], scale, operand_b=operands[1])
    assert found == {mine | first << 4 | first << 29 for first in first_bytes}
    copies = re.findall(r"tcgen05\.cp\S* \[[^]]*\], (%rd\d+);", ptx)
    words = dict(re.findall(r"mov\.b64\s+(%rd\d+), \{%r\d+, (%r\d+)\};", ptx))
    high = {words[copy] for copy in copies}
    said = {int(number) for name, number in re.findall(r"mov\.b32\s+(%r\d+), (\d+);", ptx) if name in high}
    without_base = {number & ~(7 << 17) for number in said}  # of a pattern of a swizzle, which there is none of
    assert without_base == {1 << 14 | 8 * 16 >> 4}
