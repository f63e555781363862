"""Lines of emitted text, and the lines of the user's kernel that they were printed for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLine:
    """A line of a source text; `file` as the line information names it."""

    file: str
    line: int


@dataclass(frozen=True)
class KernelLines:
    """Which line of the user's kernel each emitted line was printed for.

    file: the kernel's. lines: emitted line (from 1) of the text called `emitted` -> kernel line; an emitted line
    without an entry belongs to the nearest one above it.
    """

    file: str
    lines: Mapping[int, int]
    emitted: str = "kernel.cu"

    def at(self, place: SourceLine | None) -> int:
        """The kernel line of a place, 0 if it has none."""
        if place is None or not place.file.endswith(f"/{self.emitted}"):
            return 0
        above = [line for line in self.lines if line <= place.line]
        return self.lines[max(above)] if above else 0
