"""The API is what its description says, whatever it is asked."""

from __future__ import annotations

from pathlib import Path

from tests.openapi import attack


def test_whatever_is_asked_the_answer_is_one_that_the_description_names(tmp_path: Path) -> None:
    found = attack(tmp_path, examples=1, seconds=15, seed=1, phases="coverage,stateful")
    assert found.cases > 17 and not found.failed, found.said
