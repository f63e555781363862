"""The table of `twill compare`: one row a strategy, with notes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from twill.show.table import new_table
from twill.solve.comparison import Comparison, StrategyRow

COLUMNS = ("strategy", "I", "L", "copies", "registers", "groups", "proven", "seconds", "gain")
PROVEN = {"all": "all", "ii": "I", "none": "no"}
NOTHING = "-"


def print_comparison(console: Console, comparison: Comparison) -> None:
    """The table and its notes on a console."""
    for part in parts(comparison):
        console.print(part)


def parts(comparison: Comparison) -> Iterator[RenderableType]:
    """What is printed, in order."""
    title = f"{comparison.kernel} ({comparison.spec}) on {comparison.machine}"
    table = new_table(title, COLUMNS, [name for name in COLUMNS if name not in ("strategy", "proven")])
    for row in comparison.rows:
        table.add_row(*cells(row))
    yield table
    for line in notes(comparison):
        yield Text(line)


def cells(row: StrategyRow) -> tuple[str, ...]:
    """One row of the table; `~` before cycles that are estimated from normalized units."""
    seconds = f"{row.seconds:.1f}"
    f = row.figures
    if f is None:
        return (row.strategy, *[NOTHING] * 6, seconds, NOTHING)
    about = "~" if f.cycles_per_unit is not None else ""
    gain = NOTHING if row.speedup is None or row.strategy == "joint" else f"{about}{row.speedup:.2f}x"
    return (
        row.strategy,
        f"{about}{f.cycles_per_instance:,.0f}",
        f"{about}{f.length:,.0f}",
        str(f.copies),
        str(f.registers),
        str(f.warp_groups),
        PROVEN[f.proven],
        seconds,
        gain,
    )


def notes(comparison: Comparison) -> Iterator[str]:
    """How to read the figures, which rows are for normalized costs, and why a row has no schedule or no proof."""
    yield "I: cycles for each program instance; registers: a thread's, summed over warp groups; gain: I / I of joint"
    for row in comparison.rows:
        f = row.figures
        if f is not None and f.cycles_per_unit is not None:
            unit = f"1 unit = {f.cycles_per_unit:g} cycles"
            yield f"{row.strategy}: solved with normalized costs, {unit}; its cycles are estimates"
        if row.refusal:
            yield f"{row.strategy}: {row.refusal}"
