"""Promises of the live line: bounds and cooperations on a terminal, silence elsewhere."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from twill.cli.progress import ProgressLines, bounds, live_progress
from twill.graph.costed import Cooperation
from twill.smt.outcome import Progress
from twill.solve.pipeline import Report

TWO = Cooperation(dim="m", split=2, fuse=1)
ONE = Cooperation(dim="", split=1, fuse=1)


def report(cooperation: Cooperation, phase: str, lower: int, upper: int | None) -> Report:
    """What the solver tells."""
    return Report(1, cooperation, Progress(phase, lower, upper, 1.5))


@pytest.mark.parametrize(
    ("lower", "upper", "words"),
    [(5, None, "I >= 5"), (5, 9, "5 <= I <= 9"), (5, 5, "I = 5")],
)
def test_bounds_close_in(lower: int, upper: int | None, words: str) -> None:
    assert bounds("I", lower, upper) == words


def test_each_cooperation_has_a_line_of_what_is_known() -> None:
    lines = ProgressLines()
    for listed in (report(ONE, "ii", 100, None), report(ONE, "ii", 120, 120), report(TWO, "ii", 90, 90)):
        lines.report(listed)
    lines.report(report(TWO, "length", 7, 9))
    assert lines.lines() == ["loop 1, one row block: I = 120", "loop 1, 2 row blocks along m: I = 90, 7 <= L <= 9"]


def test_on_a_terminal_it_is_drawn_and_wiped() -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=100, legacy_windows=False)
    with live_progress(console) as notify:
        assert notify is not None
        notify(report(TWO, "crossing", 0, 232))
    assert "2 row blocks along m: 0 <= crossing <= 232" in file.getvalue()
    assert file.getvalue().endswith("\x1b[2K")


def test_elsewhere_nobody_is_told() -> None:
    file = StringIO()
    with live_progress(Console(file=file, force_terminal=False)) as notify:
        assert notify is None
    assert file.getvalue() == ""
