"""Registers that Triton's compiler writes behind the fence of the product that uses them are found in the PTX, along
every path, and the module names its line; constants of operand A are printed so that none is written there."""

from __future__ import annotations

import pytest

from tests.conftest import GOLDEN
from twill.codegen.compile.gluon.fences import unfenced
from twill.codegen.compile.gluon.read_back import differences

FENCE = "wgmma.fence.sync.aligned;"
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, %rd1, 1, 1, 1, 0;"
SHARED = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r1,%r2,%r3,%r4}, %rd2, %rd1, 1, 1, 1, 0, 0;"
RIGHT = {
    "written in front": ("mov.b32 %r6, 0;", FENCE, PRODUCT),
    "another product's": (FENCE, PRODUCT, SHARED, PRODUCT),
    "a register of no product": (FENCE, "mov.b32 %r9, 0;", PRODUCT),
    "operand A elsewhere": (FENCE, "mov.b32 %r6, 0;", SHARED),
    "read behind it": (FENCE, "st.shared.v2.b32 [%r9], {%r5, %r6};", "bar.sync 8, 128;", PRODUCT),
    "a loop with a fence": (
        "mov.b32 %r1, 0;",
        "$L__BB0_1:",
        FENCE,
        PRODUCT,
        "mov.b32 %r5, %r9;",
        "@%p1 bra $L__BB0_1;",
    ),
    "a path that ends": (FENCE, "@%p1 bra $L__BB0_2;", "mov.b32 %r5, 0;", "ret;", "$L__BB0_2:", PRODUCT),
}
WRONG = {
    "a constant of A": (FENCE, PRODUCT, "mov.b32 %r7, 0;", PRODUCT),
    "a pair of A": (FENCE, "mov.b64 {%r7, %r9}, %rd3;", PRODUCT),
    "loaded": (FENCE, "@%p1 ld.shared.b32 %r7, [%r9];", PRODUCT),
    "an accumulator": (FENCE, "mov.b32 %r2, %r9;", SHARED),
    "no fence": ("mov.b32 %r1, 0;", SHARED),
    "a loop without a fence": (FENCE, "$L__BB0_1:", PRODUCT, "mov.b32 %r5, %r9;", "@%p1 bra $L__BB0_1;"),
    "one of two paths": (FENCE, "@%p1 bra $L__BB0_2;", "mov.b32 %r5, 0;", "$L__BB0_2:", PRODUCT),
    "a table of paths": ("$L_brx_0: .branchtargets", "$L__BB0_2,", "$L__BB0_3;", FENCE, "brx.idx %r9, $L_brx_0;",
                         "$L__BB0_3:", "ret;", "$L__BB0_2:", "mov.b32 %r5, 0;", PRODUCT),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_registers_in_front_of_a_fence_are_right(case: str) -> None:
    assert unfenced("\n".join(RIGHT[case])) == {}


@pytest.mark.parametrize("case", WRONG)
def test_a_register_that_is_written_behind_a_fence_is_found_at_its_product(case: str) -> None:
    text = WRONG[case]
    last = max(number for number, line in enumerate(text) if line.startswith("wgmma.mma"))
    looped = case == "a loop without a fence"
    assert unfenced("\n".join(text)) == {text.index(PRODUCT) if looped else last: 1}


def test_functions_are_apart() -> None:
    assert unfenced("\n".join((FENCE, "mov.b32 %r5, 0;", ".visible .entry other(", FENCE, PRODUCT))) == {}


def test_the_difference_names_the_line_of_the_module() -> None:
    ptx = "\n".join((".loc 1 7 9", FENCE, "mov.b32 %r7, 0;", PRODUCT))
    found = [one.describe("module.py") for one in differences("", ptx, [])]
    assert found[-1] == (
        "module.py:7: expected a product whose registers are written in front of wgmma.fence.sync, "
        "found 1 of its registers is written behind it"
    )


def test_a_masked_operand_of_a_product_is_moved_into_registers_and_no_other_is() -> None:
    texts = {name: (GOLDEN / f"gluon_{name}.txt").read_text() for name in ("linear_attention_bf16", "attention_causal")}
    on_one_line = " ".join(texts["linear_attention_bf16"].split())
    masked = on_one_line.split("= in_registers(")[1:]
    assert len(masked) == 2
    assert all(
        one.lstrip().startswith("gl.where(") and "A_OF_MMA_64" in one.partition("state_ring")[0] for one in masked
    )
    assert "in_registers" not in texts["attention_causal"]
