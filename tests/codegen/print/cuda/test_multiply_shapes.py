"""Promises of the printed multiplies."""

from __future__ import annotations

import re

import pytest

from twill.codegen.compile.disassembler import disassemble
from twill.codegen.compile.listing import read_sass
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape, wgmma_source


def test_a_wrapper_is_named_by_its_shape_types_and_place_of_a() -> None:
    assert MultiplyShape("bf16", "bf16", 128).name == "wgmma_m64n128k16_bf16_ss"
    assert MultiplyShape("e4m3", "e5m2", 8, "register").name == "wgmma_m64n8k32_e4m3_e5m2_rs"
    assert MultiplyShape("tf32", "tf32", 256).name == "wgmma_m64n256k8_tf32_ss"


@pytest.mark.parametrize("n", [0, -8, 4, 12, 264])
def test_columns_that_the_instruction_does_not_have_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match="multiples of 8 up to 256"):
        MultiplyShape("bf16", "bf16", n)


def test_types_that_do_not_mix_are_refused() -> None:
    with pytest.raises(ValueError, match="only 8-bit types mix"):
        MultiplyShape("bf16", "f16", 64)


def test_only_the_shapes_asked_for_are_printed_each_once_in_a_fixed_order() -> None:
    one, two = MultiplyShape("bf16", "bf16", 64), MultiplyShape("bf16", "bf16", 16)
    text = wgmma_source([one, two, one])
    assert text == wgmma_source([two, one])
    assert re.findall(r"void (\w+)\(", text) == [two.name, one.name]
    assert wgmma_source([]) == ""


def test_no_printed_line_is_too_long_to_read() -> None:
    text = wgmma_source([MultiplyShape("f16", "f16", 256, "register")])
    assert max(map(len, text.splitlines())) <= 120
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_the_narrowest_the_oddest_and_the_widest_shape_assemble_as_themselves() -> None:
    shapes = [MultiplyShape("bf16", "bf16", n) for n in (8, 40, 256)]
    kernels = [
        f"""extern "C" __global__ void __launch_bounds__(128, 1) k{shape.n}(float* out, u64 a, u64 b) {{
              float d[{shape.registers}];
              wgmma_fence();
              {shape.name}<1, 0>(d, a, b, false);
              wgmma_commit();
              wgmma_wait<0>();
              for (int i = 0; i < {shape.registers}; ++i) out[threadIdx.x + 128 * i] = d[i];
            }}"""
        for shape in shapes
    ]
    build = compile_cubin("\n".join(kernels), shapes=shapes)
    machine_code = {one.function: one.mmas() for one in read_sass(disassemble(build.cubin) or "")}
    assert machine_code == {f"k{shape.n}": {f"m64n{shape.n}k16": 1} for shape in shapes}
