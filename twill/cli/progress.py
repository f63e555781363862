"""What a solve is at, on the error stream of a terminal: cooperations tried, bounds closing in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from twill.show.words import cooperation_words

if TYPE_CHECKING:
    from twill.solve.pipeline import Report

PHASES = {"ii": "I", "length": "L"}


class ProgressLines:
    """One line for every loop and cooperation that was worked on; the last one is alive.

    A line has each objective as far as it is known, in the order in which they are minimized. `title` is
    said before any line is known, and ahead of the line that is alive.
    """

    def __init__(self, title: str = "") -> None:
        self.title = title
        self.known: dict[tuple[int, str], dict[str, str]] = {}
        self.seconds = 0.0
        self.spinner = Spinner("dots")

    def report(self, report: Report) -> None:
        """Note what is known now."""
        progress = report.progress
        name = PHASES.get(progress.phase, progress.phase)
        self.seconds = progress.seconds
        line = self.known.setdefault((report.loop, cooperation_words(report.cooperation)), {})
        line[name] = bounds(name, progress.lower, progress.upper)

    def lines(self) -> list[str]:
        """The lines as text."""
        return [f"loop {loop}, {words}: {', '.join(line.values())}" for (loop, words), line in self.known.items()]

    def __rich__(self) -> RenderableType:
        *done, last = self.lines() or ["reading the graph"]
        head = f"{self.title}: " if self.title else ""
        self.spinner.update(text=Text(f"{head}{last}  {self.seconds:.1f} s"))
        return Group(*(Text(f"  {line}", style="dim") for line in done), self.spinner)


def bounds(name: str, lower: int, upper: int | None) -> str:
    """`2048 <= I <= 2100`, `I = 2048` or `I >= 2048`."""
    if upper is None:
        return f"{name} >= {lower}"
    return f"{name} = {lower}" if lower == upper else f"{lower} <= {name} <= {upper}"


@contextmanager
def live_progress(console: Console | None = None, title: str = "") -> Iterator[Callable[[Report], None] | None]:
    """A callback for the solver while the block runs; None, and silence, if nobody watches."""
    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    lines = ProgressLines(title)
    with Live(lines, console=console, transient=True, refresh_per_second=8):
        yield lines.report
