"""Rings are balanced when a CTA ends, also at sizes at which nothing else shows that they are not."""

from __future__ import annotations

from tests.mutations import mutants
from tests.warp_programs import gemm
from twill.codegen.verify.abstract_machine import run, trials


def test_a_slot_is_given_back_as_often_as_it_was_filled() -> None:
    """One program instance of one iteration: no slot is wanted again, and no tile is found by whom it is not for."""
    program = gemm()
    launches = [trial.launch for trial in trials(program)]
    launch = min((one for one in launches if one.scalars["K"] > 0), key=lambda one: (one.scalars["K"], one.grid))
    assert not run(program, launch, launch.grid[0] * launch.grid[1]).violations
    left_out = [one.program for one in mutants(program) if one.kind == "dropped Consumed"]
    found = [run(one, launch, launch.grid[0] * launch.grid[1]).violations for one in left_out]
    assert {violation.rule for violations in found for violation in violations} == {"leftover"}
