"""Promises of handed-out registers: nothing beyond the file or a limit, groups that compute first and alike."""

from __future__ import annotations

from dataclasses import replace

from tests.test_codegen_text import PROGRAM
from twill.codegen.aref import WarpGroup, WarpProgram
from twill.codegen.budgets import widened
from twill.machine_file import load_machine

H100 = load_machine("h100")


def program(*groups: tuple[int, bool]) -> WarpProgram:
    """Groups of 128 threads: registers, whether one thread issues."""
    made = tuple(
        WarpGroup(i, f"group {i}", 128, registers, issuer, (), (), ()) for i, (registers, issuer) in enumerate(groups)
    )
    return replace(PROGRAM, groups=made)


def budgets(*groups: tuple[int, bool]) -> list[int]:
    return [group.registers for group in widened(program(*groups), H100).groups]


def test_two_groups_that_compute_get_all_they_can_have() -> None:
    assert budgets((152, False), (168, False), (24, True)) == [240, 240, 32]


def test_three_share_what_there_is() -> None:
    found = budgets((96, False), (128, False), (96, False), (24, True))
    assert found == [160, 160, 160, 32]
    assert sum(found) * 128 <= H100.register_file.registers.value


def test_one_alone_stops_at_the_limit_of_its_kind() -> None:
    assert budgets((96, False), (24, True)) == [240, 40]


def test_a_full_file_and_budgets_as_compiled_stay() -> None:
    assert budgets((240, False), (240, False), (32, True)) == [240, 240, 32]
    assert budgets((0, False), (0, False)) == [0, 0]
