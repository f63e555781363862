"""Promises of widening: narrow floats become float32 everywhere, the rest stays."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, kernel
from twill.tile.interpret.widen import wide, widened
from twill.tile.program import Loop, TileProgram


@pytest.mark.parametrize(
    ("element", "wanted"),
    [("bf16", "f32"), ("ptr:f16", "ptr:f32"), ("desc:f8e4m3", "desc:f32"), ("f8e5m2", "f32"), ("f64", "f64"),
     ("ptr:i32", "ptr:i32"), ("i1", "i1")],
)  # fmt: skip
def test_elements(element: str, wanted: str) -> None:
    assert wide(element) == wanted


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
