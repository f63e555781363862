"""Promises of `twill.codegen.print.cuda.print_per_group`: C that has the value of each warp group at its place."""

from __future__ import annotations

import re

import pytest

from twill.codegen.print.cuda.print_per_group import per_group


@pytest.mark.parametrize("numbers", [(0, 64), (0, 64, 128), (3, 4), (2, 1), (1, 2, 0), (5, 5), (7, 0, 0)])
def test_every_group_gets_its_number(numbers: tuple[int, ...]) -> None:
    made = per_group([str(number) for number in numbers], "place", numbers)
    python = re.sub(r"place == (\d+) \? (\d+) : ", r"\2 if place == \1 else ", made)
    assert [eval(python, {"place": place}) for place in range(len(numbers))] == list(numbers)


def test_steps_of_equal_size_are_counted_and_others_chosen() -> None:
    assert per_group(["a", "b"], "g", (16, 48)) == "(a + g * 32)"
    assert per_group(["a", "b", "c"], "g", (16, 48, 16)) == "(g == 0 ? a : g == 1 ? b : c)"


def test_guards_name_the_groups() -> None:
    assert per_group(["false", "true", "true"], "g") == "(g == 1 || g == 2)"
    assert per_group(["1.0f", "2.5f"], "g", (1.0, 2.5)) == "(g == 0 ? 1.0f : 2.5f)"
