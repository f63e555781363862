"""What contraction makes of small programs, both as text; and that it is done where Triton's compiler does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.conftest import GOLDEN
from tests.pass_texts import PassCase, pass_cases
from twill.kernel.specialization import resolve
from twill.tile.parse import parse
from twill.tile.text import program_text
from twill.tile.translate.contraction import contract
from twill.tile.translate.translate import tile_program

CASES = pass_cases(GOLDEN / "translations")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_contraction_makes_one_text_of_another(case: PassCase, request: pytest.FixtureRequest) -> None:
    case.check(lambda text: program_text(contract(parse(text))), request.config.getoption("--update-golden"))


KERNEL = """
@triton.jit
def k(x, y):
    i = tl.arange(0, 64)
    v = tl.load(x + i)
    tl.store(y + i, v * v - v)
"""


@pytest.mark.parametrize(("strict", "fp_fusion", "kinds"), [
    (False, True, {"fma"}),
    (True, True, {"mul", "sub"}),
    (False, False, {"mul", "sub"}),
])  # fmt: skip
def test_a_kernel_is_contracted_unless_it_may_not_be(
    kernel_file: Callable[..., str], strict: bool, fp_fusion: bool, kinds: set[str]
) -> None:
    spec = resolve(f"{kernel_file(KERNEL)}::k", sig=["x=*bf16:16", "y=*bf16:16"])
    program = tile_program(replace(spec, strict=strict, fp_fusion=fp_fusion))
    assert {op.kind for op in program.ops() if op.kind in ("mul", "sub", "fma")} == kinds
