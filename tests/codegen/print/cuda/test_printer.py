"""Promises of the printer: whole kernels that compile, do not wait or spill, and can be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.printed_attention import attention
from tests.printed_programs import arguments, compute, gemm, simple, symbol, tile_program
from twill import exc
from twill.codegen.compile.nvrtc import Build, compile_cubin
from twill.codegen.print.cuda.printer import Printed, print_cuda
from twill.codegen.print.cuda.statements import PRINTERS
from twill.codegen.warp.expression import Local, Number
from twill.codegen.warp.layout import Accumulator, Blocked
from twill.codegen.warp.program import Compute, Fill, Let, Reg, Stmt, StoreGlobal, WarpProgram, Window, WindowAxis
from twill.codegen.warp.scheduling import SchedulingStmt
from twill.machine.file import load_machine


def built(program: WarpProgram) -> tuple[Printed, Build]:
    """Printed and compiled; a build that would run badly raises."""
    printed = print_cuda(program)
    return printed, compile_cubin(printed.text, shapes=printed.shapes, lines=printed.lines)


def test_a_gemm_is_printed_as_it_was(golden: Callable[[str, str], None]) -> None:
    golden("printed_gemm.cu", print_cuda(gemm()).text)


def test_a_gemm_compiles_with_the_multiplies_it_says() -> None:
    printed, build = built(gemm())
    facts = build.function(printed.function)
    assert facts.remarks == ()
    assert list(facts.mma_loops) == [{"m64n128k16": 8}, {"m64n128k16": 4}] * 2
    assert (printed.threads, printed.shared) == (384, 163840 + 64)


def test_attention_with_operands_in_registers_compiles_without_waits_or_spills() -> None:
    printed, build = built(attention())
    facts = build.function(printed.function)
    assert (facts.remarks, facts.spill_stores) == ((), 0)
    assert {shape.name for shape in printed.shapes} == {"wgmma_m64n128k16_bf16_rs"}


def test_a_wide_accumulator_is_multiplied_in_parts() -> None:
    printed = print_cuda(gemm(groups=1, columns=320))
    parts = re.findall(r"wgmma_m64n(\d+)k16_bf16_ss<0, 1>\(part<(\d+)>\(acc, (\d+)\)", printed.text)
    assert sorted(set(parts)) == [("128", "64", "96"), ("192", "96", "0")]


def test_every_statement_of_the_grammar_has_a_printer() -> None:
    assert {*Stmt.__subclasses__(), *SchedulingStmt.__subclasses__()} - {SchedulingStmt} == set(PRINTERS)


def test_budgets_grow_or_shrink_from_what_the_register_file_gives_at_entry() -> None:
    text = print_cuda(gemm()).text  # 65,536 registers over 384 threads: 168 each
    assert re.findall(r"regs_\w+<\d+>", text) == ["regs_shrink<40>", "regs_grow<232>", "regs_grow<232>"]
    fewer = gemm(groups=1)  # 256 threads: 255 each
    assert re.findall(r"regs_\w+<\d+>", print_cuda(fewer).text) == ["regs_shrink<40>", "regs_shrink<232>"]


def test_the_machine_can_be_given() -> None:
    unnamed = replace(gemm(), machine="one of mine")
    assert "regs_grow<232>" in print_cuda(unnamed, load_machine("h200")).text


def test_emitted_lines_lead_back_to_the_kernel() -> None:
    printed = print_cuda(gemm())
    lines = printed.text.splitlines()
    at = next(n for n, line in enumerate(lines, 1) if "wgmma_m64n128k16" in line)
    above = max(line for line in printed.lines.lines if line <= at)
    assert (printed.lines.file, printed.lines.lines[above]) == ("gemm.py", 33)


def test_names_of_the_kernel_never_meet_those_of_the_printed_text() -> None:
    names = ["smem", "lane", "i", "int", "a.b", "a_b", "desc_a", "tile", "thread"]
    block = Blocked((256,), 2)
    body = [s for n in range(len(names)) for s in (Fill(n, Number(n, "i32")), compute("add", n, n, 0))]
    window = Window("at", "i32", (WindowAxis(256, Number(1), Number(0)),), Number(0), 0.0)
    stores = [StoreGlobal(window, Reg(n)) for n in range(len(names))]
    built(simple("while", arguments(at="ptr:i32"), [(name, "i32", block) for name in names], [*body, *stores]))


def test_a_name_may_be_defined_again_in_terms_of_itself() -> None:
    program = tile_program("k", arguments(n="i32", X="ptr:i32"))
    again = Let("m", Local("m"))
    window = Window("X", "i32", (), Number(0), 0.0)
    body = [Let("m", symbol(program, "n")), again, StoreGlobal(window, Local("m"))]
    printed, _ = built(simple("k", program.arguments, [], body))
    assert "const i32 m = n;" in printed.text and "const i32 m_0 = m;" in printed.text


def test_what_has_no_cuda_is_an_error_at_the_kernel_s_line() -> None:
    odd = Compute("gamma", (Reg(0),), 0, line=7)
    with pytest.raises(exc.UnsupportedInKernel, match=r"^k\.py:7: no CUDA for the operation 'gamma'"):
        print_cuda(simple("k", (), [("x", "f32", Accumulator(64, 8))], [odd]))


def test_one_thread_holds_no_fragments() -> None:
    program = simple("k", (), [("x", "f32", Blocked((128,), 1))], [Fill(0, Number(0.0, "f32"), line=3)])
    alone = replace(program, groups=(replace(program.groups[0], issuer=True),))
    with pytest.raises(exc.UnsupportedInKernel, match="one thread"):
        print_cuda(alone)
