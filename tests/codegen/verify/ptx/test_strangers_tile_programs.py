"""Tile programs of kernels with scales of blocks compute what Triton's own PTX for sm_100a does."""

from __future__ import annotations

import numpy as np
import pytest

from tests import stranger_kernels
from tests.codegen.verify.ptx.test_strangers_block_scales import MXFP4, MXFP8, NVFP4, Case, in_blocks, tensors
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
