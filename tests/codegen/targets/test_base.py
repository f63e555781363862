"""Promises of `twill.codegen.targets.base`: a target is its folder; a machine without one is refused before a solve."""

from __future__ import annotations

import pytest

from tests.kernels import H100
from twill import exc
from twill.codegen.targets.base import target_of, targets
from twill.machine.file import load_machine

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


def test_a_machine_file_without_the_figures_of_emitted_code_is_refused_with_what_to_do() -> None:
    machine = load_machine("h100").model_copy(update={"name": "mine", "emission": None})
    with pytest.raises(exc.NotForEmission, match=r'machine file of mine has no \[emission\](.|\n)*extends = "h100"'):
        target_of(machine)
