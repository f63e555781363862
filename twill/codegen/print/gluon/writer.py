"""Lines of Python as ruff would format them, each with the line of the kernel that it was printed for."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from textwrap import wrap

from twill.codegen.print.gluon.facts import ModuleFact

WIDTH = 120
STEP = 4


class PythonWriter:
    """lines: line of the text (from 1) -> line of the kernel. facts: what the warp program decides in which line."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.lines: dict[int, int] = {}
        self.facts: list[ModuleFact] = []
        self._depth = 0

    def line(self, text: str = "", kernel: int = 0) -> None:
        """One line, as it is."""
        self.text.append(" " * STEP * self._depth + text if text else "")
        if kernel:
            self.lines[len(self.text)] = kernel

    def fact(self, said: str, kernel: int = 0) -> None:
        """What the next line says, for who reads it back."""
        self.facts.append(ModuleFact(len(self.text) + 1, said, kernel))

    def call(self, head: str, arguments: Sequence[str], tail: str = ")", kernel: int = 0) -> None:
        """`head(arguments)`: on one line, or the arguments on the next, as ruff breaks it; more of them fill lines."""
        if self.fits(head, arguments, tail):
            self.line(f"{head}({', '.join(arguments)}{tail}", kernel)
            return
        self.line(f"{head}(", kernel)
        with self.deeper():
            lines = self.filled(arguments)
            for text in lines:
                self.line(text, kernel)
        self.line(tail if len(lines) == 1 else f"{tail}  # fmt: skip", kernel)

    def assign(self, name: str, text: str, kernel: int = 0) -> None:
        """`name = text`; one that is too long as ruff breaks it: arguments of a call on the next line, others in
        parentheses."""
        room = WIDTH - STEP * self._depth
        if len(name) + len(" = ") + len(text) <= room:
            self.line(f"{name} = {text}", kernel)
            return
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call) and not tree.keywords:
            given = [text[one.col_offset : one.end_col_offset] for one in tree.args]
            self.call(f"{name} = {text[: tree.func.end_col_offset]}", given, kernel=kernel)
            return
        for part in (f"{name} = (", " " * STEP + text, ")"):
            self.line(part, kernel)

    def fits(self, head: str, arguments: Sequence[str], tail: str = ")") -> bool:
        """Whether a call stands on one line."""
        return STEP * self._depth + len(head) + len(", ".join(arguments)) + len(tail) + 1 <= WIDTH

    def aligned(self, head: str, arguments: Sequence[str], tail: str) -> None:
        """`head(arguments)`: on one line, or the arguments below one another."""
        lines = self.filled(arguments, len(head) + 1 + len(tail))
        for number, text in enumerate(lines):
            begin = f"{head}(" if not number else " " * (len(head) + 1)
            self.line(f"{begin}{text}" if number < len(lines) - 1 else f"{begin}{text.removesuffix(',')}{tail}")

    def filled(self, parts: Sequence[str], taken: int = 0) -> list[str]:
        """Parts with commas between them, as many on a line as there is room for; one line has none at its end.
        taken: characters of a line that are not for them."""
        room = WIDTH - STEP * self._depth - taken
        lines = [""]
        for part in parts:
            longer = f"{lines[-1]} {part},".lstrip()
            if len(longer) - (len(parts) == 1) > room and lines[-1]:
                lines.append(f"{part},")
            else:
                lines[-1] = longer
        if len(lines) == 2 and len(", ".join(parts)) <= room:
            lines = [", ".join(parts) + ","]
        return [lines[0].removesuffix(",")] if len(lines) == 1 else lines

    def docstring(self, text: str) -> None:
        """Sentences, broken at spaces."""
        for line in wrap(f'"""{text}"""', WIDTH - STEP * self._depth, break_long_words=False):
            self.line(line)

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
        self.facts += [replace(fact, line=begin + fact.line) for fact in other.facts]
        for text in other.text:
            self.line(text)
        self.lines |= {begin + line: kernel for line, kernel in other.lines.items()}
