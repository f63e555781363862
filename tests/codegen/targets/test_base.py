"""Promises of `twill.codegen.targets.base`: a target is its folder; a machine without one is refused before a solve."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, kernel
from tests.kernels import H100
from twill import exc
from twill.codegen import emission, lowerable
from twill.codegen.targets.base import target_of, targets
from twill.machine.file import load_machine
from twill.schedule.document import Schedule

IMAGINARY = "tests.codegen.targets.imaginary"


def test_a_target_is_found_by_its_folder() -> None:
    assert [target.name for target in targets(IMAGINARY)] == ["Nothing"]
    unbuilt = H100.model_copy(update={"architecture": "sm_0"})
    assert target_of(unbuilt, IMAGINARY).name == "Nothing"


def test_machines_of_one_architecture_have_one_target() -> None:
    assert target_of(H100) is target_of(load_machine("h200"))
    assert "Hopper" in [target.name for target in targets()]


def test_a_machine_without_a_target_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(exc.NoTarget, match=r"h100 \(sm_90a\); there is for Nothing \(sm_0\)"):
        target_of(H100, IMAGINARY)


def test_a_target_without_a_product_refuses_it_at_its_line_and_says_why(at_root: object) -> None:
    read = kernel(Example("examples/gemm.py", "bf16"))
    nothing = target_of(H100.model_copy(update={"architecture": "sm_0"}), IMAGINARY)
    with pytest.raises(exc.UnsupportedInKernel, match="`acc` is a product of 128 x 128 x 64 in bf16") as raised:
        nothing.refuse(read.graph)
    assert "and Nothing has no matrix multiply" in raised.value.message and raised.value.line > 0
    assert raised.value.hint == "another machine (`--machine`)"
    target_of(H100).refuse(read.graph)


def test_a_kernel_without_products_needs_none(at_root: object) -> None:
    nothing = target_of(H100.model_copy(update={"architecture": "sm_0"}), IMAGINARY)
    nothing.refuse(kernel(Example("examples/layer_norm.py", "bf16")).graph)


@pytest.mark.parametrize(
    ("rows", "columns", "ok"),
    [(64, 8, True), (128, 80, True), (32, 64, True), (8, 64, False), (72, 64, False), (64, 12, False)],
)
def test_products_are_made_of_the_targets_shapes(rows: int, columns: int, ok: bool) -> None:
    assert target_of(H100).has_result(rows, columns) == ok


def test_what_the_target_lacks_is_refused_before_anything_is_solved(
    at_root: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = target_of(H100.model_copy(update={"architecture": "sm_0"}), IMAGINARY)
    monkeypatch.setattr(lowerable, "target_of", lambda machine: nothing)

    def solver(graph: object, machine: object) -> Schedule:
        raise AssertionError("solved")

    with pytest.raises(exc.UnsupportedInKernel, match="no matrix multiply"):
        emission.emit_solved(kernel(Example("examples/gemm.py", "bf16")), H100, solver)


def test_a_machine_file_without_the_figures_of_emitted_code_is_refused_with_what_to_do() -> None:
    machine = load_machine("h100").model_copy(update={"name": "mine", "emission": None})
    with pytest.raises(exc.NotForEmission, match=r'machine file of mine has no \[emission\](.|\n)*extends = "h100"'):
        target_of(machine)
