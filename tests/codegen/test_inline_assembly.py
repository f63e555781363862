"""`tl.inline_asm_elementwise` is emitted as `asm` statements, and the machine code computes what the text does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.print.cuda.print_assembly import cuda_text
from twill.codegen.warp.parse import parse as parse_warp_program
from twill.codegen.warp.text import text as warp_text
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.parse import parse
from twill.tile.text import program_text
from twill.trial.execute import checked

HEAD = """
@triton.jit
def k(x, y, n, s, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.program_id(0) * B + i
    v = tl.load(x + at, mask=at < n, other=0.5)
"""
STORE = "    tl.store(y + at, w, mask=at < n)\n"


def asm(text: str, constraints: str, operands: str, dtype: str = "tl.float32", pack: int = 1, pure: bool = True) -> str:
    return f"tl.inline_asm_elementwise({text!r}, {constraints!r}, [{operands}], {dtype}, {pure}, {pack})"


KERNELS = {
    "floats in registers of bits": f"    w = {asm('ex2.approx.ftz.f32 $0, $1;', '=r,r', 'v')}\n",
    "two results, not pure, more lines, own registers": f"""
    a, b = {
        asm(
            "{ .reg .b32 %t; // $0" + chr(10) + " neg.f32 %t, $2; mov.b32 $0, %t; shr.u32 $1, $3, 3; }",
            "=&r,=r,r,r",
            "v, i",
            "(tl.float32, tl.int32)",
            pure=False,
        )
    }
    w = a + b.to(tl.float32)
""",
    "pairs of halves": f"""
    h = v.to(tl.bfloat16)
    w = {asm("fma.rn.bf16x2 $0, $1, $1, $2;", "=r,r,r", "h, h * 2", "tl.bfloat16", 2)}.to(tl.float32)
""",
    "halves alone, from bytes of integers": f"""
    b = {asm("xor.b32 $0, $1, 0x05050505;", "=r,r", "i.to(tl.int8)", "tl.int8", 4)}
    h = {asm("neg.f16 $0, $1;", "=h,h", "v.to(tl.float16)", "tl.float16")}
    w = h.to(tl.float32) + b.to(tl.float32)
""",
    "several registers of a pack, a vector of them": f"""
    t = tl.reshape(v, (B // 16, 16))
    c = tl.load(x + tl.arange(0, 16))
    t = {asm("add.f32 $0, $2, $4; add.f32 $1, $3, $5;", "=f,=f,f,f,f,f", "t, c[None, :]", pack=2)}
    w = tl.reshape(t, (B,))
""",
    "scalars, and doubles": f"""
    e = {asm("ex2.approx.ftz.f32 $0, $1;", "=f,f", "s")}
    d = {
        asm(
            "{ .reg .f64 h; mov.f64 h, 0d3FE0000000000000; fma.rn.f64 $0, $1, h, $1; }",
            "=l,d",
            "v.to(tl.float64)",
            "tl.float64",
        )
    }
    w = d.to(tl.float32) + e
""",
}
SIG = ["x=*fp32:16", "y=*fp32:16", "n=i32", "s=fp32"]


@pytest.mark.parametrize("name", KERNELS)
def test_inline_assembly_is_executed_as_the_tile_program_says(kernel_file: Callable[..., str], name: str) -> None:
    kernel = extract(f"{kernel_file(HEAD + KERNELS[name] + STORE)}::k", sig=SIG, const=["B=512"])
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    checked(emission)
    text = program_text(kernel.program)
    assert "inline_asm" in text and program_text(parse(text)) == text
    written = warp_text(emission.program)
    assert warp_text(parse_warp_program(written, emission.program.program)) == written


def test_cuda_spells_operands_and_registers_otherwise() -> None:
    assert cuda_text("add.u32 %r, $0, $11; // $$") == "add.u32 %%r, %0, %11; // $"
    assert cuda_text(".reg .b32 t; mov.b32 $0, t;") == "{\n.reg .b32 t; mov.b32 %0, t;\n}"
