"""What every rewrite of tile programs makes of small programs, both as text, and what it leaves alone."""

from __future__ import annotations

import pytest

from tests.conftest import GOLDEN
from tests.pass_texts import PassCase, pass_cases
from twill.tile.parse import parse
from twill.tile.rewrite.pipeline import PIPELINE
from twill.tile.text import program_text

CASES = pass_cases(GOLDEN / "rewrites")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_a_rewrite_makes_one_text_of_another(case: PassCase, request: pytest.FixtureRequest) -> None:
    (step,) = (step for step in PIPELINE if step.name == case.name)
    case.check(lambda text: program_text(step.run(parse(text))), request.config.getoption("--update-golden"))


@pytest.mark.parametrize("name", [step.name for step in PIPELINE])
def test_every_rewrite_has_a_program_that_it_changes_and_one_that_it_leaves_alone(name: str) -> None:
    assert {case.changes for case in CASES if case.name == name} == {True, False}
