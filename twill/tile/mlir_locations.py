"""Locations in MLIR -> lines of the kernel's file and names of its variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

_TEXT = r'"((?:[^"\\]|\\.)*)"'
_PLACE = re.compile(_TEXT + r":(\d+):\d+(?: to (?:\d*:)?\d+)?")
_NAME = re.compile(_TEXT)
_FUSED = re.compile(r"fused(?:<.*?>)?\[")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t"}


@dataclass(frozen=True)
class Frame:
    """A place in a file. name: the Python variable that a value was made for there, "" if unknown."""

    name: str
    file: str
    line: int


class Locations:
    """Reads the locations of one module."""

    def __init__(self, aliases: Mapping[str, str], file: str) -> None:
        """aliases: what `#loc7` stands for. file: the absolute path whose lines are wanted."""
        self.aliases = aliases
        self.file = file
        self._known: dict[str, tuple[Frame, ...]] = {}
        self._found: dict[str, tuple[int, str]] = {"": (0, "")}

    def locate(self, text: str) -> tuple[int, str]:
        """(line, Python variable) of the innermost frame of a location that lies in the file; (0, "") if none."""
        if text not in self._found:
            inside = (frame for frame in self.frames(text) if frame.file == self.file)
            self._found[text] = next(((frame.line, frame.name) for frame in inside), (0, ""))
        return self._found[text]

    def frames(self, text: str) -> tuple[Frame, ...]:
        """Every frame of what stands in `loc(...)`, innermost first."""
        if text not in self._known:
            self._known[text], end = self._read(text, 0)
            if end != len(text):
                raise ValueError(f"no location in MLIR: {text}")
        return self._known[text]

    def _read(self, text: str, at: int) -> tuple[tuple[Frame, ...], int]:
        """The frames of the location that begins there, and where it ends."""
        if text.startswith("#", at):
            alias = re.compile(r"#\w+").match(text, at)
            name = alias[0] if alias else ""
            return self.frames(self.aliases[name]), at + len(name)
        if text.startswith("callsite(", at):
            callee, at = self._read(text, at + len("callsite("))
            caller, at = self._read(text, at + len(" at "))
            return (*callee, *caller), at + len(")")
        if place := _PLACE.match(text, at):
            return (Frame("", _spelled(place[1]), int(place[2])),), place.end()
        if named := _NAME.match(text, at):
            return self._named(_spelled(named[1]), text, named.end())
        if fused := _FUSED.match(text, at):
            return self._fused(text, fused.end())
        return (), at + len("unknown")

    def _named(self, name: str, text: str, at: int) -> tuple[tuple[Frame, ...], int]:
        """`"acc"(location)`, of which a name within is the more exact one; without a location no frame."""
        if not text.startswith("(", at):
            return (), at
        frames, at = self._read(text, at + 1)
        return tuple(replace(frame, name=frame.name or name) for frame in frames), at + len(")")

    def _fused(self, text: str, at: int) -> tuple[tuple[Frame, ...], int]:
        found: list[Frame] = []
        while True:
            frames, at = self._read(text, at)
            found.extend(frames)
            if not text.startswith(", ", at):
                return tuple(found), at + len("]")
            at += len(", ")


def _spelled(text: str) -> str:
    """What a string literal means: MLIR writes bytes outside of printable ASCII in hexadecimal."""
    if "\\" not in text:
        return text
    made = _ESCAPE.sub(lambda found: _LETTERS.get(found[1]) or _byte(found[1]), text.encode())
    return made.decode(errors="surrogateescape")


def _byte(escaped: bytes) -> bytes:
    return bytes([int(escaped, 16)]) if len(escaped) == 2 else escaped
