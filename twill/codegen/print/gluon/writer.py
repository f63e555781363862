"""Lines of Python as ruff would format them, each with the line of the kernel that it was printed for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

WIDTH = 120
STEP = 4


class PythonWriter:
    """lines: line of the text (from 1) -> line of the kernel."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.lines: dict[int, int] = {}
        self._depth = 0

    def line(self, text: str = "", kernel: int = 0) -> None:
        """One line, as it is."""
        self.text.append(" " * STEP * self._depth + text if text else "")
        if kernel:
            self.lines[len(self.text)] = kernel

    def call(self, head: str, arguments: Sequence[str], tail: str = ")", kernel: int = 0) -> None:
        """`head(arguments)`, broken as ruff breaks it: on one line, or all on the next, or one on each."""
        room = WIDTH - STEP * self._depth
        joined = ", ".join(arguments)
        if len(head) + len(joined) + len(tail) + 1 <= room:
            self.line(f"{head}({joined}{tail}", kernel)
            return
        self.line(f"{head}(", kernel)
        if len(joined) + STEP <= room:
            self.line(" " * STEP + joined, kernel)
        else:
            for argument in arguments:
                self.line(f"{' ' * STEP}{argument},", kernel)
        self.line(tail, kernel)

    @contextmanager
    def block(self, head: str, kernel: int = 0) -> Iterator[None]:
        """`head:` and what is written inside one step deeper."""
        self.line(f"{head}:", kernel)
        with self.deeper():
            yield

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """What is written inside stands one step deeper."""
        self._depth += 1
        yield
        self._depth -= 1

    def take(self, other: PythonWriter) -> None:
        """The lines of another text, here."""
        begin = len(self.text)
        for text in other.text:
            self.line(text)
        self.lines |= {begin + line: kernel for line, kernel in other.lines.items()}
