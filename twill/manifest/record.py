"""Frozen dataclasses to JSON values and back, by their annotations: what the runtime has instead of a library.

Fields may be bool, int, float, str, None, a Literal, another dataclass, `tuple[X, ...]`, or a union of these; a union
is read as the first of its members that fits. Reading is strict: no missing field, no unknown one, no conversion but
from an integer to a float.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache
from itertools import cycle
from typing import Any, TypeVar

T = TypeVar("T")


class Misfit(ValueError):
    """A JSON value that is not what a field wants. The message begins with the field's path."""


def to_json(value: Any) -> Any:
    """JSON lists and objects for tuples and dataclasses, fields in their order."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [to_json(entry) for entry in value]
    return value


def from_json(kind: type[T], data: object) -> T:
    """A dataclass from a JSON object. Errors: Misfit."""
    try:
        read: T = _reader(typing.cast(Any, kind))(data)
    except Misfit as misfit:
        raise Misfit(f"document{misfit}" if str(misfit).startswith(": ") else str(misfit).removeprefix(".")) from None
    return read


Reader = Callable[[Any], Any]
"""Reads one value. Errors: Misfit, its message beginning with the path inside the value (".field", "[0]", "" and a
colon); who reads the whole puts its own in front."""


@cache
def _reader(hint: Any) -> Reader:
    """Of a field with this annotation. Made once, because an emitted kernel is read while a launch waits for it."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(members)
    if origin is tuple:
        return _list(members)
    if origin is typing.Literal:
        return _literal(members)
    if dataclasses.is_dataclass(hint):
        return _record(hint)
    return _plain(hint)


def _record(kind: Any) -> Reader:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    readers: dict[str, Reader] = {}  # made at the first value: a record may hold others of its kind

    def read(data: Any) -> Any:
        if type(data) is not dict:
            raise Misfit(f": {_said(data)} where {kind.__name__} is an object")
        if not readers:
            readers.update({name: _reader(hints[name]) for name in names})
        if data.keys() != readers.keys():
            for name in data:
                if name not in readers:
                    raise Misfit(f".{name}: there is no such field")
            raise Misfit(f".{next(name for name in names if name not in data)}: is missing")
        found = {}
        for name in names:
            try:
                found[name] = readers[name](data[name])
            except Misfit as misfit:
                raise Misfit(f".{name}{misfit}") from None
        return kind(**found)

    return read


def _union(members: tuple[Any, ...]) -> Reader:
    def read(data: Any) -> Any:
        if type(data) in members:  # exact types before a float that an integer could become
            return data
        listed = []
        for member in members:
            try:
                return _reader(member)(data)
            except Misfit as misfit:
                listed.append(misfit)
        raise max(listed, key=lambda misfit: len(str(misfit).partition(": ")[0]))  # the one that got furthest

    return read


def _list(members: tuple[Any, ...]) -> Reader:
    """Of so many members; of any number of one, where an ellipsis is behind it."""
    any_number = members[1:] == (Ellipsis,)
    readers = [_reader(member) for member in members[: 1 if any_number else None]]

    def read(data: Any) -> Any:
        if type(data) is not list:
            raise Misfit(f": {_said(data)} where it is a list")
        if not any_number and len(data) != len(readers):
            raise Misfit(f": {len(data)} entries where it has {len(readers)}")
        found = []
        for index, (reader, entry) in enumerate(zip(cycle(readers) if any_number else readers, data, strict=False)):
            try:
                found.append(reader(entry))
            except Misfit as misfit:
                raise Misfit(f"[{index}]{misfit}") from None
        return tuple(found)

    return read


def _literal(members: tuple[Any, ...]) -> Reader:
    def read(data: Any) -> Any:
        if data not in members:
            raise Misfit(f": {_said(data)} is none of {', '.join(map(repr, members))}")
        return data

    return read


def _plain(kind: Any) -> Reader:
    def read(data: Any) -> Any:
        if type(data) is kind:
            return data
        if kind is float and type(data) is int:
            return float(data)
        raise Misfit(f": {_said(data)} where it is a {getattr(kind, '__name__', kind)}")

    return read


def _said(data: object) -> str:
    text = repr(data)
    return text if len(text) <= 40 else f"{text[:37]}..."
