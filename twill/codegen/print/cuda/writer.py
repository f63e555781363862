"""The text of a kernel while it is printed: indented lines, comments, and the kernel line of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


class TextWriter:
    """Lines of C. `lines` maps a line of the text (from 1) to the line of the kernel that it was printed for."""

    def __init__(self) -> None:
        self.lines: dict[int, int] = {}
        self._text: list[str] = []
        self._depth = 0
        self._said = ""
        self._open: tuple[object, int, int] | None = None  # loop that may go on: its key, its depth, where it ends

    def line(self, text: str = "") -> None:
        """One line, or several with line breaks between them."""
        for part in text.split("\n"):
            directive = part.startswith("#")
            self._text.append(part if directive or not part else "  " * self._depth + part)

    @contextmanager
    def block(self, head: str = "", tail: str = "}") -> Iterator[None]:
        """`head {`, what is written inside one step deeper, and `tail`."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    @contextmanager
    def unrolled(self, head: str, times: int = 0) -> Iterator[None]:
        """A for loop with head `head` (what stands between the parentheses) that the compiler unrolls. times: so many
        iterations at a time (0: all)."""
        self.line(f"#pragma unroll {times}" if times else "#pragma unroll")
        with self.block(f"for ({head})"):
            yield

    @contextmanager
    def elementwise(self, head: str, key: object) -> Iterator[None]:
        """As `unrolled`, but where only comments stand behind a loop with the same `key`, that loop goes on: element by
        element, short-lived values need a register each and not a tile of them."""
        if not self._goes_on((head, key)):
            self.line("#pragma unroll")
            self.line(f"for ({head}) {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")
        self._open = ((head, key), self._depth, len(self._text))

    def _goes_on(self, key: object) -> bool:
        """Takes back the end of the last loop, if this one is to go on with it."""
        if self._open is None or self._open[:2] != (key, self._depth):
            return False
        end = self._open[2]
        said = self._text[end:]
        if not all(text.lstrip().startswith("//") for text in said):
            return False
        self._text[end - 1 :] = ["  " + text for text in said]
        self.lines = {number - (number > end): line for number, line in self.lines.items()}
        return True

    def origin(self, line: int, note: str) -> None:
        """What follows was printed for `line` of the kernel; said once for neighbours."""
        if line:
            self.lines[len(self._text) + 1] = line
        said = ": ".join(part for part in (f"line {line}" if line else "", note) if part)
        if said and said != self._said:
            self.line(f"// {said}")
        self._said = said or self._said

    def text(self) -> str:
        """Everything written."""
        return "\n".join(self._text) + "\n"


def guarded(out: TextWriter, condition: str) -> AbstractContextManager[None]:
    """An `if`, unless the condition always holds."""
    return out.block(f"if ({condition})") if condition else nullcontext()
