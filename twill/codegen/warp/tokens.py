"""The tokens of a warp program's text, line by line, and a reader that walks over those of one line.

A line is its indentation (two spaces a level), its tokens, and a remark behind `# `: the line of the kernel and a note.
Whitespace between tokens says nothing. A reader tries alternatives and goes back (`attempt`); when all have failed, it
names what the one that came furthest would have accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from twill.exc import WarpTextSyntax

T = TypeVar("T")
INDENT = "  "
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")'
    r"|(?P<number>-?(?:inf\b|nan\b|\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![A-Za-z_\d])))"
    r"|(?P<shape>\d+(?:x\d+)+)"
    rf"|(?P<word>{WORD.pattern})"
    r"|(?P<id>#\d+)"
    r"|(?P<sign>->|\+=|==|!=|<=|>=|\.\.|[][(){},:=<>+*/%@$?-])"
)
_REMARK = re.compile(r"line (\d+)(?:: (.*))?")
END = "the end of the line"


def quoted(name: str) -> str:
    """A name as one token: as it is, or in quotes where it is no word."""
    return name if WORD.fullmatch(name) and name not in ("inf", "nan") else json.dumps(name)


def remark(line: int, note: str) -> str:
    """The comment behind a statement. A note that itself begins like "line 7" stands behind "line 0"."""
    if line or _REMARK.fullmatch(note):
        note = f"line {line}" + (f": {note}" if note else "")
    return f"  # {note}" if note else ""


@dataclass(frozen=True)
class Token:
    """kind: a group of `_TOKEN`. column: from 1."""

    kind: str
    text: str
    column: int


class Mismatch(Exception):
    """What stands here is not what an alternative wants; `Reader.furthest` says what it is."""


@dataclass
class Reader:
    """The tokens of one line. number: of the line, from 1. furthest: where reading failed last, and what was wanted."""

    number: int
    tokens: tuple[Token, ...]
    end: int
    line: int = 0
    note: str = ""
    at: int = 0
    furthest: tuple[int, tuple[str, ...]] = field(default=(0, ()))

    def fail(self, wanted: str) -> NoReturn:
        """Raises Mismatch; remembers what was wanted here."""
        place, words = self.furthest
        if self.at > place:
            words = ()
        if self.at >= place and wanted not in words:
            self.furthest = (self.at, (*words, wanted))
        raise Mismatch

    def peek(self, ahead: int = 0) -> Token:
        """The next token; at the end one of kind "end"."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else Token("end", END, self.end)

    def take(self, kind: str, wanted: str) -> str:
        """The text of the next token, which is of that kind."""
        token = self.peek()
        if token.kind != kind:
            self.fail(wanted)
        self.at += 1
        return token.text

    def accept(self, text: str) -> bool:
        """Whether the next token is this one; it is then behind us."""
        if self.peek().text != text or self.peek().kind in ("string", "end"):
            return False
        self.at += 1
        return True

    def expect(self, text: str) -> None:
        """The next token is this one."""
        if not self.accept(text):
            self.fail(f"`{text}`")

    def finish(self) -> None:
        """Nothing is left of the line."""
        if self.peek().kind != "end":
            self.fail(END)

    def attempt(self, read: Callable[[Reader], T]) -> T | None:
        """What is read, or None with nothing behind us."""
        at = self.at
        try:
            return read(self)
        except Mismatch:
            self.at = at
            return None

    def error(self) -> WarpTextSyntax:
        """The place that was reached, what stands there, and what could."""
        place, wanted = self.furthest
        token = self.tokens[place] if place < len(self.tokens) else Token("end", END, self.end)
        found = token.text if token.kind == "end" else f"`{token.text}`"
        return WarpTextSyntax(found, wanted, line=self.number, column=token.column)


@dataclass
class TextLine:
    """A line with the lines that are indented below it."""

    reader: Reader
    indent: int
    below: list[TextLine]


def lines(text: str) -> list[TextLine]:
    """The lines that are not indented, in order; empty ones say nothing. Raises WarpTextSyntax."""
    root: list[TextLine] = []
    above: list[TextLine] = []
    for number, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        indent = len(content) - len(content.lstrip(" "))
        del above[(indent + 1) // len(INDENT) :]
        if indent != len(INDENT) * len(above):
            wanted = f"an indentation of at most {len(INDENT) * len(above)} spaces, a multiple of {len(INDENT)}"
            raise WarpTextSyntax(f"{indent} spaces", (wanted,), line=number, column=indent + 1)
        line = TextLine(_reader(number, content), indent, [])
        (above[-1].below if above else root).append(line)
        above.append(line)
    return root


def _reader(number: int, content: str) -> Reader:
    tokens = []
    at, line, note = 0, 0, ""
    for at in _places(content):
        if content.startswith("# ", at):
            note = content[at + 2 :]
            if found := _REMARK.fullmatch(note):
                line, note = int(found[1]), found[2] or ""
            break
        match = _TOKEN.match(content, at)
        if match is None:
            raise WarpTextSyntax(f"`{content[at]}`", ("a token",), line=number, column=at + 1)
        tokens.append(Token(str(match.lastgroup), match[0], at + 1))
    end = tokens[-1].column + len(tokens[-1].text) if tokens else 1
    return Reader(number, tuple(tokens), end, line, note)


def _places(content: str) -> Iterator[int]:
    """Where tokens begin, a remark or what is none included."""
    at = 0
    while at < len(content):
        if content[at] == " ":
            at += 1
            continue
        yield at
        match = _TOKEN.match(content, at)
        at = match.end() if match else len(content)
