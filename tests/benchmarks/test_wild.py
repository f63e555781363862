"""The table of public packages is what was measured, at its place in the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import wild
from twill.coverage.outcome import AttemptOutcome, Stage


def outcome(stage: Stage, code: int = 0, reason: str = "") -> AttemptOutcome:
    """One kernel's."""
    return AttemptOutcome(
        key="", file="a.py", kernel="k", line=1, spec="guessed", stage=stage, code=code, reason=reason
    )


def test_a_row_counts_what_triton_compiles_and_how_far_it_came() -> None:
    outcomes = [
        outcome("emitted"), outcome("emission", 2, "a | b"), outcome("extraction", 2, "an if"),
        outcome("solve", 5, "internal error: KeyError"), outcome("triton", 2, "no"),
    ]  # fmt: skip
    lines = list(wild.tables([(wild.CORPORA[0], outcomes)]))
    assert lines[2] == "| fla-core 0.6.0 | 5 | 4 | 3 (75 %) | 1 (25 %) | 1 |"
    assert "| an if | 1 |" in lines and "| a / b | 1 |" in lines


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = wild.PAGE.read_text(encoding="utf-8")
    once = wild.written(page, "| new |\n")
    assert "| new |" in once and wild.written(once, "") == wild.written(page, "")
    assert once.split(wild.BEGIN)[0] == page.split(wild.BEGIN)[0]


def test_a_package_is_downloaded_once_and_covered_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr("benchmarks.wild.subprocess.run", lambda command, check: calls.append(command))
    corpus = wild.CORPORA[0]
    folder = tmp_path / "fla-core-0.6.0" / "site-packages"
    folder.mkdir(parents=True)
    for _ in range(2):
        assert wild.download(corpus, tmp_path) == folder
    assert len(calls) == 1 and calls[0][-2:] == ["fla-core==0.6.0", "einops"] and "--no-deps" in calls[0]
