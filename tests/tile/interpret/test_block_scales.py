"""Products with scales of blocks mean what Triton's compiled code computes, and what the formats say."""

from __future__ import annotations

import numpy as np
import pytest

from tests import stranger_kernels
from tests.codegen.verify.ptx.test_strangers_block_scales import MXFP4, MXFP8, NVFP4, Case, in_blocks, tensors
from twill.kernel.specialization import resolve
from twill.ptx.formats import decode
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret import block_scales, sequential
from twill.tile.interpret.arithmetic import Array
from twill.tile.rewrite.pipeline import rewrite
from twill.tile.translate.translate import tile_program


def held(bits: Array, element: str) -> Array:
    """Flat, as the interpreter holds elements."""
    return (bits.view(np.int8) if element == "u8" else decode(bits, "e4m3").astype(np.float32)).reshape(-1).copy()


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(("case", "k"), [(MXFP8, 128), (MXFP4, 256), (NVFP4, 256)])
def test_a_kernel_of_tensor_maps_computes_what_its_compiled_code_does(case: Case, k: int, rewritten: bool) -> None:
    """`tests.codegen.verify.ptx.test_strangers_block_scales` holds Triton's own PTX to the same product."""
    element, _, vec = case
    kinds, scale = {"e4m3": "fp8e4nv", "e2m1": "u8"}, "u8" if vec == 32 else "fp8e4nv"
    per, block = 2 if element == "e2m1" else 1, f"[1,1,{k // vec // 4},2,256]"
    types = {"a": f"{kinds[element]}[128,{k // per}]", "b": f"{kinds[element]}[128,{k // per}]",
             "sa": f"{scale}{block}", "sb": f"{scale}{block}", "c": "fp32[128,128]"}  # fmt: skip
    sig = [*(f"{name}=tensordesc<{kind}>" for name, kind in types.items()), "K=i32"]
    const = ["BLOCK_M=128", "BLOCK_N=128", f"BLOCK_K={k}", f"A={element}", f"B={element}", f"VEC={vec}"]
    spec = resolve(f"{stranger_kernels.__file__}::scaled_gemm_by_descriptors", sig=sig, const=const)
    program = resolve_accesses(tile_program(spec))
    program = rewrite(program) if rewritten else program
    assert {op.attribute("layout") for op in program.ops() if op.kind == "dot_scaled"} == {
        "chunks" if rewritten else "rows"
    }
    given, wanted = tensors(case, 128, 128, 2 * k)
    given |= {name: in_blocks(given[name]) for name in ("sa", "sb")}
    made = {"a": held(given["a"], kinds[element]), "b": held(given["b"], kinds[element]),
            "sa": held(given["sa"], scale), "sb": held(given["sb"], scale),
            "c": np.zeros(128 * 128, np.float32)}  # fmt: skip
    shapes = {name: array.shape for name, array in given.items()}
    sequential.run(program, (1, 1, 1), made, {"K": 2 * k, **sequential.descriptor_scalars(program, shapes)})
    assert np.abs(made["c"].reshape(128, 128) - wanted).max() <= 2**-20 * np.abs(wanted).max()


def test_chunks_hold_the_scales_of_rows_32_apart_side_by_side() -> None:
    places = block_scales.in_chunks(256, 8)
    assert sorted(places.ravel()) == list(range(256 * 8))
    assert places[0, :5].tolist() == [0, 1, 2, 3, 512] and places[[1, 32, 33, 128], 0].tolist() == [16, 4, 20, 1024]
    tile = np.arange(256 * 8)
    assert (block_scales.in_rows(tile.reshape(1, 2, 2, 2, 256), 256, 8) == places).all()


def test_formats() -> None:
    e8m0 = np.array([0, 126, 127, 128, 254, 255], np.uint8).view(np.int8)
    assert block_scales.numbers(e8m0)[:5].tolist() == [2.0**-127, 0.5, 1, 2, 2.0**127]
    assert np.isnan(block_scales.numbers(e8m0)[5])
    packed = np.array([[0x10, 0x32, 0x54, 0x76, 0x98, 0xFE]], np.uint8).view(np.int8)
    assert block_scales.unpacked(packed, "e2m1").tolist() == [[0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -4, -6]]


def test_sums_are_rounded_once() -> None:
    a, b = np.full((1, 64), 1, np.float32), np.full((64, 1), 1, np.float32)
    a[0, 32:] = 2**-9
    scales = np.array([[127 + 15, 127]], np.uint8).view(np.int8)
    said = {"a": "e4m3", "b": "e4m3", "block": 32, "layout": "rows"}
    ones = np.full((1, 2), 127, np.uint8).view(np.int8)
    exact = 32 * 2.0**15 + 32 * 2.0**-9
    assert block_scales.multiplied([a, b, np.zeros((1, 1), np.float32), scales, ones], said) == np.float32(exact)
