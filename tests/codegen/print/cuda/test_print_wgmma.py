"""Promises of products: descriptors of every form of operand, and what the hardware cannot read is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.printed_programs import matrix, simple
from twill import exc
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.layout import Accumulator, Layout
from twill.codegen.warp.program import Buffer, Commit, Fence, Multiply, SlotRef, Stmt, WaitGroups, WarpProgram


def product(
    operand: str,
    a: tuple[int, int],
    b: tuple[int, int],
    a_transposed: bool = False,
    b_transposed: bool = False,
    swizzle: int = 128,
    part: SlotRef | None = None,
) -> WarpProgram:
    """One product of two slots whose tiles have the shapes a and b."""
    rows, depth = a[::-1] if a_transposed else a
    columns = b[0] if b_transposed else b[1]
    buffers = [matrix(0, "a", a, operand, swizzle=swizzle), matrix(1, "b", b, operand, swizzle=swizzle)]
    multiply = Multiply(0, SlotRef(0), part or SlotRef(1), a_transposed, b_transposed, depth, operand, False, line=6)
    return kernel([("acc", "f32", Accumulator(rows, columns))], multiply, buffers)


def kernel(fragments: Sequence[tuple[str, str, Layout]], multiply: Multiply, buffers: Sequence[Buffer]) -> WarpProgram:
    body: list[Stmt] = [Fence((0,)), multiply, Commit(), WaitGroups(0, (0,))]
    return simple("k", (), fragments, body, buffers=buffers)


def calls(program: WarpProgram) -> list[str]:
    """Every printed multiply, its descriptors before it; the text must compile without a remark."""
    printed = print_cuda(program)
    compile_cubin(printed.text, shapes=printed.shapes, lines=printed.lines)
    return [line.strip() for line in printed.text.splitlines() if "wgmma_m64" in line or "const u64 desc" in line]


def test_k_major_operands_advance_inside_of_a_panel_then_by_panels() -> None:
    assert calls(product("bf16", (64, 128), (64, 128), b_transposed=True)) == [
        "const u64 desc_a = descriptor_k_major<128>(smem + a_at);",
        "const u64 desc_b = descriptor_k_major<128>(smem + b_at);",
        "wgmma_m64n64k16_bf16_ss(acc, descriptor_advance(desc_a, ks % 4 * 32 + ks / 4 * 8192), "
        "descriptor_advance(desc_b, ks % 4 * 32 + ks / 4 * 8192), ks != 0);",
    ]


def test_mn_major_operands_advance_by_rows_and_say_how_far_panels_are_apart() -> None:
    assert calls(product("f16", (32, 128), (32, 64), a_transposed=True))[1:] == [
        "const u64 desc_b = descriptor_mn_major<128>(smem + b_at, 4096);",
        "wgmma_m64n64k16_f16_ss<1, 1>(part<32>(acc, 0), descriptor_advance(desc_a, ks * 2048), "
        "descriptor_advance(desc_b, ks * 2048), ks != 0);",
        "wgmma_m64n64k16_f16_ss<1, 1>(part<32>(acc, 32), descriptor_advance(desc_a, ks * 2048 + 4096), "
        "descriptor_advance(desc_b, ks * 2048), ks != 0);",
    ]


@pytest.mark.parametrize("swizzle", [64, 32])
def test_narrow_swizzles_have_narrow_panels(swizzle: int) -> None:
    made = calls(product("bf16", (64, 64), (64, 64), b_transposed=True, swizzle=swizzle))
    steps = swizzle // 32
    assert f"ks % {steps} * 32 + ks / {steps} * {64 * swizzle}" in made[-1]


@pytest.mark.parametrize(("operand", "name"), [("f8e4m3", "k32_e4m3"), ("f8e5m2", "k32_e5m2"), ("f32", "k8_tf32")])
def test_other_widths_are_read_along_k(operand: str, name: str) -> None:
    made = calls(product(operand, (64, 128), (64, 128), b_transposed=True))
    assert re.match(rf"wgmma_m64n64{name}_ss\(", made[-1])


def test_a_comes_from_registers_four_for_each_step() -> None:
    acc, p = Accumulator(128, 64), Accumulator(128, 32)
    fragments: list[tuple[str, str, Layout]] = [("acc", "f32", acc), ("p", "bf16", p)]
    multiply = Multiply(0, 1, SlotRef(0), False, False, 32, "bf16", True)
    made = calls(kernel(fragments, multiply, [matrix(0, "b", (32, 64), "bf16")]))
    assert [re.findall(r"part<32>\(acc, \d+\), [^,]+,", line)[0] for line in made[1:]] == [
        "part<32>(acc, 0), p + 4 * ks,",
        "part<32>(acc, 32), p + (8 + 4 * ks),",
    ]


def test_a_part_of_a_slot_along_k_begins_some_steps_later() -> None:
    made = calls(product("bf16", (64, 32), (64, 128), b_transposed=True, swizzle=64, part=SlotRef(1, columns=(32, 64))))
    assert "descriptor_advance(desc_b, (ks + 2) % 2 * 32 + (ks + 2) / 2 * 4096)" in made[-1]


def test_what_the_hardware_cannot_read_is_refused() -> None:
    across = product("f8e4m3", (64, 128), (128, 128))
    with pytest.raises(exc.UnsupportedInKernel, match=r"^k\.py:6: 'b' of f8e4m3 would have to be read across its rows"):
        print_cuda(across)
    uneven = product("bf16", (64, 24), (64, 24), b_transposed=True, swizzle=32)
    with pytest.raises(exc.UnsupportedInKernel, match="a product over 24 bf16"):
        print_cuda(uneven)
    fragments: list[tuple[str, str, Layout]] = [("acc", "f32", Accumulator(64, 64)), ("p", "f32", Accumulator(64, 32))]
    multiply = Multiply(0, 1, SlotRef(0), False, False, 32, "bf16", True)
    wide = kernel(fragments, multiply, [matrix(0, "b", (32, 64), "bf16")])
    with pytest.raises(exc.UnsupportedInKernel, match="'p' is not an A operand of 64 x 32"):
        print_cuda(wide)
