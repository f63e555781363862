"""Lists of a command as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines with cells below one another."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
