"""Which line of a TOML text defines which key (`tomllib` keeps no positions).

`key_lines(text)` maps every dotted key, as a tuple such as `("mma", "rates", "f16")` or
`("operations", 2, "latency")` for the third table of an array, to its line, counted from 1.
The text must already have been accepted by `tomllib`: this scanner does not report syntax errors.
"""

from __future__ import annotations

from collections.abc import Callable

Key = tuple[str | int, ...]

_QUOTES = ('"""', "'''", '"', "'")  # longest first
_BARE_END = frozenset(" \t\r\n=.,[]{}#")


def key_lines(text: str) -> dict[Key, int]:
    """The line of every key, table header and array element of `text`."""
    return _Scanner(text).document()


def line_of(lines: dict[Key, int], key: Key) -> int:
    """The line of `key`, or of its closest enclosing table that has one; 0 for the whole file."""
    for length in range(len(key), 0, -1):
        if key[:length] in lines:
            return lines[key[:length]]
    return 0


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.lines: dict[Key, int] = {}
        self.arrays: dict[Key, int] = {}  # arrays of tables -> index of their newest table

    def document(self) -> dict[Key, int]:
        table: Key = ()
        while self.skip_blank():
            if self.peek("["):
                table = self.header()
            else:
                self.assignment(table)
        return self.lines

    def header(self) -> Key:
        """`[a.b]` or `[[a.b]]`; the key it opens, with the index of the newest table of each array."""
        of_array = self.peek("[[")
        line = self.line
        self.advance(2 if of_array else 1)
        parts = self.dotted_key()
        self.skip_blank()
        self.advance(2 if of_array else 1)
        key: Key = ()
        for part in parts[:-1]:
            key = self.newest((*key, part))
        key = (*key, parts[-1])
        if of_array:
            self.arrays[key] = self.arrays.get(key, -1) + 1
            self.lines.setdefault(key, line)
            key = (*key, self.arrays[key])
        self.lines[key] = line
        return key

    def newest(self, key: Key) -> Key:
        return (*key, self.arrays[key]) if key in self.arrays else key

    def assignment(self, table: Key) -> None:
        line = self.line
        key = table
        for part in self.dotted_key():
            key = (*key, part)
            self.lines.setdefault(key, line)
        self.skip_blank()
        self.advance(1)  # "="
        self.skip_blank()
        self.value(key)

    def value(self, key: Key) -> None:
        """Skip one value, recording the keys inside an inline table and the elements of an array."""
        if self.peek("{"):
            self.items("}", lambda index: self.assignment(key))
        elif self.peek("["):
            self.items("]", lambda index: self.element((*key, index)))
        elif self.quote():
            self.string()
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}#\n":
                self.advance(1)

    def items(self, end: str, item: Callable[[int], None]) -> None:
        self.advance(1)
        index = 0
        while self.skip_blank() and not self.peek(end):
            if self.peek(","):
                self.advance(1)
                continue
            item(index)
            index += 1
        self.advance(1)

    def element(self, key: Key) -> None:
        self.lines[key] = self.line
        self.value(key)

    def dotted_key(self) -> list[str]:
        parts = []
        while True:
            self.skip_blank()
            parts.append(self.string() if self.quote() else self.bare())
            self.skip_blank()
            if not self.peek("."):
                return parts
            self.advance(1)

    def bare(self) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _BARE_END:
            self.advance(1)
        return self.text[start : self.at]

    def quote(self) -> str:
        return next((quote for quote in _QUOTES if self.peek(quote)), "")

    def string(self) -> str:
        """Skip a string of any of the four kinds; its text as written (escapes are kept)."""
        quote = self.quote()
        self.advance(len(quote))
        start = self.at
        while not self.peek(quote):
            self.advance(2 if quote[0] == '"' and self.peek("\\") else 1)
        while len(quote) == 3 and self.peek(quote[0] * 4):  # a quote just before the closing three
            self.advance(1)
        text = self.text[start : self.at]
        self.advance(len(quote))
        return text

    def skip_blank(self) -> bool:
        """Skip white space and comments; False at the end of the text."""
        while self.at < len(self.text):
            if self.peek("#"):
                while self.at < len(self.text) and not self.peek("\n"):
                    self.advance(1)
            elif self.text[self.at].isspace():
                self.advance(1)
            else:
                return True
        return False

    def peek(self, expected: str) -> bool:
        return self.text.startswith(expected, self.at)

    def advance(self, count: int) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count
