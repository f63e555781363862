"""Typed look-ups in a TOML file whose errors name file, line, key and what to write.

Every look-up takes the example to show when the key is missing. `finish` refuses keys that no
look-up named.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from twill.exc import FileMissing, TomlMissingKey, TomlSyntax, TomlUnknownKey, TomlWrongType
from twill.toml.lines import Key, key_lines, line_of

T = TypeVar("T")

_TYPE_NAMES: dict[type, str] = {
    bool: "a truth value",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


@dataclass(frozen=True)
class TomlText:
    """One parsed file: its name for messages and its text, where the line of a key is looked up."""

    file: str
    text: str

    @cached_property
    def lines(self) -> dict[Key, int]:
        """The line of every key: as long to find as to parse the file, so only where a line is asked for."""
        return key_lines(self.text)

    def line(self, key: Key) -> int:
        """The line of `key` or of its closest enclosing table; 0 if neither is in the file."""
        return line_of(self.lines, key)


@dataclass(frozen=True)
class Table:
    """One table of a TOML file. `key`: where it is in its file."""

    data: dict[str, object]
    text: TomlText
    key: Key = ()
    seen: set[str] = field(default_factory=set, compare=False)

    def names(self) -> tuple[str, ...]:
        """Every key."""
        return tuple(self.data)

    def has(self, name: str) -> bool:
        """Whether this table defines `name`."""
        self.seen.add(name)
        return name in self.data

    def line(self, name: str = "") -> int:
        """The line of key `name` of this table, or of the table's own header."""
        return self.text.line((*self.key, name) if name else self.key)

    def title(self, name: str = "") -> str:
        """The dotted key as a person would write it, e.g. `operations[2].latency`."""
        return dotted((*self.key, name) if name else self.key)

    def string(self, name: str, example: str) -> str:
        """The text under `name`, not empty."""
        value = self._typed(name, str, "a text", example)
        if not value.strip():
            raise TomlWrongType(self.title(name), "empty", example, file=self.text.file, line=self.line(name))
        return value

    def flag(self, name: str, example: str) -> bool:
        """The truth value under `name`."""
        return self._typed(name, bool, "true or false", example)

    def whole(self, name: str, example: str) -> int:
        """The whole number under `name`."""
        return self._typed(name, int, "a whole number", example)

    def strings(self, name: str, example: str) -> tuple[str, ...]:
        """The list of texts under `name`, at least one."""
        items = self._typed(name, list, "a list of texts", example)
        wrong = [f"a list with {describe(item)} in it" for item in items if not isinstance(item, str)]
        if wrong or not items:
            found = wrong[0] if wrong else "empty"
            raise TomlWrongType(self.title(name), found, example, file=self.text.file, line=self.line(name))
        return tuple(items)

    def expressions(self, name: str, example: str) -> tuple[str, ...]:
        """The list of expressions under `name`, at least one: texts, or whole numbers as they are."""
        items = self._typed(name, list, "a list of texts or whole numbers", example)
        if not items:
            raise TomlWrongType(self.title(name), "empty", example, file=self.text.file, line=self.line(name))
        for item in items:
            if isinstance(item, bool) or not isinstance(item, str | int):
                found = f"a list with {describe(item)} in it"
                raise TomlWrongType(self.title(name), found, example, file=self.text.file, line=self.line(name))
        return tuple(map(str, items))

    def table(self, name: str, example: str) -> Table:
        """The table under `name`."""
        return Table(self._typed(name, dict, "a table", example), self.text, (*self.key, name))

    def tables(self, name: str, example: str) -> tuple[Table, ...]:
        """The array of tables under `name`."""
        items = self._typed(name, list, "an array of tables", example)
        return tuple(self._element(name, index, item, example) for index, item in enumerate(items))

    def finish(self) -> None:
        """Refuse the first key of this file's table that nothing looked up."""
        for name in self.data:
            if name not in self.seen:
                hint = closest(name, self.seen)
                raise TomlUnknownKey(self.title(name), hint, file=self.text.file, line=self.line(name))

    def _element(self, name: str, index: int, item: object, example: str) -> Table:
        key = (*self.key, name, index)
        if not isinstance(item, dict):
            raise TomlWrongType(dotted(key), describe(item), example, file=self.text.file, line=self.text.line(key))
        return Table(item, self.text, key)

    def _typed(self, name: str, wanted: type[T], words: str, example: str) -> T:
        if not self.has(name):
            misspelt = difflib.get_close_matches(name, [key for key in self.data if key not in self.seen], n=1)
            hint = f"{example} (is `{misspelt[0]}` meant to be it?)" if misspelt else example
            raise TomlMissingKey(self.title(name), hint, file=self.text.file, line=self.line())
        value = self.data[name]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            hint = f"{words}, as in {example}"
            raise TomlWrongType(self.title(name), describe(value), hint, file=self.text.file, line=self.line(name))
        return value


def read_toml(path: Path) -> Table:
    """The top table of a TOML file; raises FileMissing or TomlSyntax."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileMissing(str(path), error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise TomlSyntax(str(path), 0, "it is not UTF-8 text") from error
    return read_toml_text(text, str(path))


def read_toml_text(text: str, file: str) -> Table:
    """The same of a text. file: what errors call it."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why, line = split_position(str(error), text)
        raise TomlSyntax(file, line, why) from error
    return Table(data, TomlText(file, text))


def split_position(message: str, text: str) -> tuple[str, int]:
    """The message of tomllib without its "(at line 3, column 7)", and that line (the last for the end)."""
    why, _, position = message.partition(" (at ")
    number = position.removeprefix("line ").partition(",")[0]
    return why, int(number) if number.isdecimal() else text.count("\n") + 1


def describe(value: object) -> str:
    """A value in the words of an error: `a text ("fast")`."""
    words = _TYPE_NAMES.get(type(value), "a date or time")
    return f"{words} ({value!r})" if isinstance(value, bool | int | float | str) else words


def closest(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not among `known`: the closest one, or all of them."""
    names = sorted(known)
    matches = difflib.get_close_matches(name, names, n=1)
    if matches:
        return f"did you mean `{matches[0]}`?"
    return "known are: " + ", ".join(names) if names else "none are defined"


def dotted(key: Key) -> str:
    """`("operations", 2, "latency")` as `operations[2].latency`."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        text += f"{'.' if text else ''}{part}"
    return text
