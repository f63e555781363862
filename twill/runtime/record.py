"""Frozen dataclasses to JSON values and back, by their annotations: what the runtime has instead of a library.

Fields may be bool, int, float, str, None, a Literal, another dataclass, `tuple[X, ...]`, or a union of these; a union
is read as the first of its members that fits. Reading is strict: no missing field, no unknown one, no conversion but
from an integer to a float.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache
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


def from_json(kind: type[T], data: object, path: str = "") -> T:
    """A dataclass from a JSON object. Errors: Misfit."""
    if not isinstance(data, dict):
        raise Misfit(f"{path or 'document'}: {_said(data)} where {kind.__name__} is an object")
    wanted: dict[str, Any] = _fields(kind)  # type: ignore[arg-type]
    for name in data:
        if name not in wanted:
            raise Misfit(f"{path}{name}: there is no such field")
    for name in wanted:
        if name not in data:
            raise Misfit(f"{path}{name}: is missing")
    return kind(**{name: _read(hint, data[name], f"{path}{name}") for name, hint in wanted.items()})


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _read(hint: Any, data: object, path: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _first(typing.get_args(hint), data, path)
    if origin is tuple:
        return _tuple(typing.get_args(hint), data, path)
    if origin is typing.Literal:
        if data in typing.get_args(hint):
            return data
        raise Misfit(f"{path}: {_said(data)} is none of {', '.join(map(repr, typing.get_args(hint)))}")
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast(Any, hint), data, f"{path}.")
    if hint is float and type(data) is int:
        return float(data)
    if type(data) is hint:
        return data
    raise Misfit(f"{path}: {_said(data)} where it is a {getattr(hint, '__name__', hint)}")


def _first(hints: tuple[Any, ...], data: object, path: str) -> Any:
    """The first member that fits; exact types before a float that an integer could become."""
    if type(data) in hints:
        return data
    told = []
    for hint in hints:
        try:
            return _read(hint, data, path)
        except Misfit as misfit:
            told.append(misfit)
    raise max(told, key=lambda misfit: len(str(misfit).partition(":")[0]))  # the one that got furthest


def _tuple(hints: tuple[Any, ...], data: object, path: str) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise Misfit(f"{path}: {_said(data)} where it is a list")
    if len(hints) == 2 and hints[1] is Ellipsis:
        return tuple(_read(hints[0], entry, f"{path}[{i}]") for i, entry in enumerate(data))
    if len(hints) != len(data):
        raise Misfit(f"{path}: {len(data)} entries where it has {len(hints)}")
    return tuple(_read(hint, entry, f"{path}[{i}]") for i, (hint, entry) in enumerate(zip(hints, data, strict=True)))


def _said(data: object) -> str:
    text = repr(data)
    return text if len(text) <= 40 else f"{text[:37]}..."
