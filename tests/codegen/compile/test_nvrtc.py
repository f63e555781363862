"""Promises of the build: it needs no GPU, is repeatable, and refuses what compiles but would run badly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from twill import exc
from twill.codegen.compile import nvrtc as building
from twill.codegen.compile.facts import KernelFacts
from twill.codegen.compile.listing import read_ptx
from twill.codegen.compile.nvrtc import compile_cubin, compile_error
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape
from twill.codegen.print.kernel_lines import KernelLines

TINY = 'extern "C" __global__ void tiny(float* p) { p[threadIdx.x] = ex2(p[threadIdx.x]); }\n'

SPILLS = """extern "C" __global__ void __launch_bounds__(1024, 1) spills(float* p, int n) {
  float a[96];
#pragma unroll
  for (int i = 0; i < 96; ++i) a[i] = p[i * 1024 + threadIdx.x];
  for (int j = 0; j < n; ++j)
#pragma unroll
    for (int i = 0; i < 96; ++i) a[i] = a[i] * a[(i + 7) % 96] + p[j];
#pragma unroll
  for (int i = 0; i < 96; ++i) p[i * 1024 + threadIdx.x] = a[i];
}
"""

CLEAN = """extern "C" __global__ void __launch_bounds__(128, 1) multiplies(float* p, u64 a, u64 b, int n) {
  float d[32] = {};
#pragma unroll 1
  for (int j = 0; j < n; ++j) {
    wgmma_fence();
    wgmma_m64n64k16_bf16_ss(d, a, b, true);

    wgmma_m64n64k16_bf16_ss(d, a, b, true);
    wgmma_commit();
    wgmma_wait<0>();
  }
  for (int i = 0; i < 32; ++i) p[threadIdx.x * 32 + i] = d[i];
}
"""
SERIALIZED = CLEAN.replace("b, true);\n\n", "b, true);\n    if (threadIdx.x > n)\n")  # one of a divergent branch
TOUCHED = CLEAN.replace("b, true);\n\n", "b, true);\n    d[3] += 1.f;\n")  # its accumulator is used while it runs

UNBOUNDED = """extern "C" __global__ void unbounded(float* p) {
  if (threadIdx.x < 128) regs_shrink<24>(); else regs_grow<240>();
  p[threadIdx.x] = 1;
}
"""
BOUNDED = UNBOUNDED.replace("void unbounded", "void __launch_bounds__(256, 1) bounded")

SHAPES = [MultiplyShape("bf16", "bf16", 64)]


def rejection(source: str, lines: KernelLines | None = None) -> exc.BuildRejected:
    with pytest.raises(exc.BuildRejected) as caught:
        compile_cubin(source, shapes=SHAPES, lines=lines)
    return caught.value


def test_all_wrappers_assemble_without_a_remark() -> None:
    shapes = [
        *(MultiplyShape("bf16", "bf16", 64, a_in) for a_in in ("shared", "register")),
        *(MultiplyShape(x, x, 64) for x in ("f16", "tf32", "e4m3")),
        MultiplyShape("e4m3", "e5m2", 64, "register"),
    ]
    build = compile_cubin((ROOT / "tests" / "cuda" / "every_wrapper.cu").read_text(encoding="utf-8"), shapes=shapes)
    kernels = {"threads_and_barriers", "copies", "fragments", "multiplies", "tiles"}
    assert {fact.function for fact in build.facts} == kernels
    assert [remark for fact in build.facts for remark in fact.remarks] == []
    assert build.cubin.startswith(b"\x7fELF")
    (multiplies,) = (one for one in read_ptx(build.ptx) if one.function == "multiplies")
    assert multiplies.mmas() == {"m64n64k16": 5, "m64n64k8": 1, "m64n64k32": 2}


def test_equal_sources_give_equal_bytes_wherever_they_are_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile_cubin(TINY)
    monkeypatch.chdir(tmp_path)
    second = compile_cubin(TINY)
    assert first.cubin == second.cubin
    assert str(tmp_path).encode() not in second.cubin


def test_the_facts_are_those_of_ptxas() -> None:
    facts = compile_cubin(BOUNDED).function("bounded")
    assert (facts.spill_stores, facts.spill_loads, facts.stack, facts.static_shared) == (0, 0, 0, 0)
    assert facts.registers == 240
    shared = TINY.replace("{ p", "{ __shared__ float s[64]; s[threadIdx.x] = 1; bar_sync(0, 64); p[0] = s[63]; p")
    assert compile_cubin(shared).function("tiny").static_shared == 256
    with pytest.raises(KeyError):
        compile_cubin(TINY).function("other")


def test_spills_are_refused_with_their_bytes_and_the_line_that_spills_most() -> None:
    error = rejection(SPILLS, KernelLines("kernel.py", {1: 10, 5: 97}))
    assert error.cause == "spill"
    assert "bytes stored" in error.message
    assert isinstance(error.facts, KernelFacts)
    assert error.facts.spill_stores > 0
    assert (error.file, error.line) == ("kernel.py", 97)


def test_serialized_wgmma_is_refused_at_the_kernel_line_of_a_multiply() -> None:
    error = rejection(SERIALIZED, KernelLines("kernel.py", {1: 40, 6: 51, 7: 52, 8: 53}))
    assert error.cause == "serialized"
    assert "serialized" in error.message
    assert error.file == "kernel.py"
    assert error.line in (51, 53)


def test_a_wait_that_the_compiler_puts_in_is_refused_near_the_use() -> None:
    error = rejection(TOUCHED, KernelLines("kernel.py", {1: 40, 6: 51, 7: 52, 8: 53}))
    assert error.cause == "wait"
    assert (error.file, error.line) == ("kernel.py", 52)


def test_ignored_setmaxnreg_is_refused_where_it_stands() -> None:
    error = rejection(UNBOUNDED)
    assert error.cause == "budget"
    assert (error.file, error.line) == ("kernel.cu", 2)


def test_the_clean_twins_are_accepted() -> None:
    facts = compile_cubin(CLEAN, shapes=SHAPES).function("multiplies")
    assert facts.mma_loops == ({"m64n64k16": 2},)
    assert compile_cubin(BOUNDED).function("bounded").remarks == ()


def test_a_slow_build_can_be_kept_to_look_at() -> None:
    build = compile_cubin(SERIALIZED, shapes=SHAPES, accept_slow=True)
    assert any(remark.serialized for remark in build.function("multiplies").remarks)


def test_a_text_that_does_not_compile_is_refused_with_the_log() -> None:
    with pytest.raises(exc.CudaRejected, match=r'/twill/kernel.cu\(1\): error: identifier "missing" is undefined'):
        compile_cubin(TINY.replace("ex2", "missing"))


def test_without_nvrtc_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(exc.BuildToolsMissing, match=r"twill-gpu\[emit\]"):
        compile_cubin(TINY)


@pytest.mark.parametrize(
    "said", ["", '/twill/kernel.cu(1): warning #177-D: variable "lane" was declared but never used']
)
def test_a_build_without_a_report_is_made_again(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """A compiler that keeps results repeats its front end's warnings, and not what ptxas reported."""
    asked, compiling = list[bool](), building._nvrtc

    def retained(
        text: str, arch: str, defines: dict[str, str], fused: bool, again: bool = False
    ) -> tuple[bytes, str, str]:
        asked.append(again)
        cubin, ptx, log = compiling(text, arch, defines, fused, again)
        return cubin, ptx, log if again else said

    monkeypatch.setattr(building, "_nvrtc", retained)
    assert compile_cubin(TINY).function("tiny").registers
    assert asked == [False, True]


def test_macros_reach_the_text() -> None:
    build = compile_cubin("#if WIDTH != 3\n#error\n#endif\n" + TINY, defines={"WIDTH": "3"})
    assert build.arch == "sm_90a"


def test_the_disassembler_runs_only_for_the_line_of_a_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "disassemble", lambda cubin: pytest.fail("disassembled"))
    assert compile_cubin(CLEAN, shapes=SHAPES).function("multiplies").mma_loops


@pytest.mark.parametrize(
    ("log", "where"),
    [
        (
            "ptxas fatal   : (C7602) Insufficient registers (96) to compile instruction at line 5651 in function "
            "twill_k. "
            "Try to compile with register target of 158 or higher.",
            " of function 'twill_k'",
        ),
        (
            "ptxas fatal   : (C7600) Register allocation failed with register count of '96'. Compile the program with "
            "a higher register target",
            "",
        ),
    ],
)
def test_an_instruction_beyond_the_registers_of_its_threads_refuses_the_build_and_not_the_text(
    log: str, where: str
) -> None:
    """ptxas spills what it can; an MMA with a large accumulator it can't. Another candidate may have more registers."""
    refused = compile_error(f"NVRTC_ERROR_COMPILATION\n{log}")
    assert isinstance(refused, exc.BuildRejected) and refused.cause == "spill"
    assert refused.message == f"an instruction{where} needs more registers than the 96 of its threads"
    assert isinstance(compile_error("NVRTC_ERROR_COMPILATION\nerror: undefined"), exc.CudaRejected)
