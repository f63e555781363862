"""Promises of widening: narrow floats become float32 everywhere, the rest stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.golden_schedules import Example, kernel
from twill.codegen.extraction import extract
from twill.tile.interpret.arrays import np
from twill.tile.interpret.sequential import run
from twill.tile.interpret.widen import Wide, wide, widened
from twill.tile.program import Loop, TileProgram


@pytest.mark.parametrize(
    ("element", "wanted"),
    [("bf16", "f32"), ("ptr:f16", "ptr:f32"), ("desc:f8e4m3", "desc:f32"), ("f8e5m2", "f32"), ("f64", "f64"),
     ("ptr:i32", "ptr:i32"), ("i1", "i1")],
)  # fmt: skip
def test_elements(element: str, wanted: str) -> None:
    assert wide(element) == wanted


@pytest.mark.parametrize(
    ("element", "wanted"), [("bf16", "f64"), ("ptr:f32", "ptr:f64"), ("i32", "i32"), ("f64", "f64")]
)
def test_elements_of_64_bits(element: str, wanted: str) -> None:
    assert wide(element, "f64") == wanted


def narrow(program: TileProgram) -> set[str]:
    """Narrow element types that are left anywhere."""
    found = {value.type.element for value in program.values} | {a.type.element for a in program.arguments}
    found |= {op.access.element for op in program.ops() if op.access}
    return {element for element in found if element.endswith("16") and "f" in element}


@pytest.mark.usefixtures("at_root")
def test_nothing_narrow_is_left_in_loops_or_outside() -> None:
    program = kernel(Example("examples/attention.py", "causal")).program
    assert narrow(program) and any(isinstance(item, Loop) for item in program.body)
    assert not narrow(widened(program))
    assert [op.kind for op in widened(program).ops()] == [op.kind for op in program.ops()]


FAR = """
@triton.jit
def k(x_ptr, y_ptr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, B))
    y = ((x + 16777216.0) - 16777216.0).to(tl.bfloat16)
    tl.store(y_ptr + tl.arange(0, B), y)
"""


def test_sums_of_64_bits_lose_nothing_that_those_of_32_lose(kernel_file: Callable[..., str]) -> None:
    program = extract(f"{kernel_file(FAR)}::k", sig=["x_ptr=*fp32:16", "y_ptr=*bf16:16"], const=["B=128"]).program
    given = np.linspace(0, 1, 128)
    widths: tuple[tuple[Wide, Any], ...] = (("f32", np.float32), ("f64", np.float64))
    for to, held in widths:
        arrays = {"x_ptr": given.astype(held), "y_ptr": np.zeros(128, held)}
        run(widened(program, to), (1,), arrays, {})
        assert np.allclose(arrays["y_ptr"], given, atol=1e-8) == (to == "f64")
