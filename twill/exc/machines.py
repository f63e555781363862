"""Mistakes in a machine file."""

from __future__ import annotations

from twill.exc.base import TwillError


class FileMissing(TwillError):
    """A file named by the user cannot be read."""

    def __init__(self, path: str, why: str, hint: str = "give the path of a file that can be read") -> None:
        super().__init__(f"cannot read the file: {why}", file=path, hint=hint)


class TomlSyntax(TwillError):
    """A TOML file does not parse."""

    def __init__(self, file: str, line: int, why: str) -> None:
        super().__init__(f"not valid TOML: {why}", file=file, line=line, hint="see https://toml.io/en/v1.0.0")


class TomlWrongType(TwillError):
    """A key of a TOML file has a value of another type than its meaning needs."""

    def __init__(self, key: str, found: str, wanted: str, *, file: str, line: int) -> None:
        super().__init__(f"`{key}` is {found}", file=file, line=line, hint=f"write {wanted}")


class TomlUnknownKey(TwillError):
    """A TOML file has a key that means nothing there."""

    def __init__(self, key: str, allowed: str, *, file: str, line: int) -> None:
        super().__init__(f"unknown key `{key}`", file=file, line=line, hint=allowed)


class TomlMissingKey(TwillError):
    """A TOML file lacks a key or section that is needed."""

    def __init__(self, key: str, example: str, *, file: str, line: int) -> None:
        super().__init__(f"`{key}` is missing", file=file, line=line, hint=f"add {example}")


class UnknownMachine(TwillError):
    """Neither a described machine nor a file."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"there is no machine called `{name}`", hint=hint)


class BadFigure(TwillError):
    """A figure of a machine file is outside the range that its meaning allows."""

    def __init__(self, key: str, value: object, must: str, *, file: str, line: int) -> None:
        super().__init__(f"`{key}` is {value}", file=file, line=line, hint=f"it must be {must}")


class MissingSource(TwillError):
    """A figure of a machine file does not say where it comes from."""

    def __init__(self, key: str, *, file: str, line: int) -> None:
        hint = 'write source = "document, table" or source = "estimate: why"'
        super().__init__(f"`{key}` has no source", file=file, line=line, hint=hint)


class UnknownReference(TwillError):
    """A machine file names a unit, context, citation ... that it does not define."""

    def __init__(self, what: str, name: str, key: str, hint: str, *, file: str, line: int) -> None:
        super().__init__(f"unknown {what} `{name}` in `{key}`", file=file, line=line, hint=hint)


class NotForEmission(TwillError):
    """A machine file lacks the figures that emitted code depends on."""

    def __init__(self, machine: str) -> None:
        hint = 'extend a machine that has it (extends = "h100"), or see docs/machine-files.md'
        super().__init__(f"the machine file of {machine} has no [emission], which emitted code depends on", hint=hint)


class NotForSimulation(TwillError):
    """A machine file lacks the figures that the simulation of machine code depends on."""

    def __init__(self, machine: str) -> None:
        hint = 'extend a machine that has it (extends = "h200"), or see docs/machine-files.md'
        super().__init__(f"the machine file of {machine} has no [simulation]", hint=hint)


class DuplicateName(TwillError):
    """A machine file defines one name twice."""

    def __init__(self, name: str, first: int, *, file: str, line: int) -> None:
        hint = f"its first definition is on line {first}; keep one of them"
        super().__init__(f"operation `{name}` is defined twice", file=file, line=line, hint=hint)


class CircularExtends(TwillError):
    """A machine file extends itself, directly or through others."""

    def __init__(self, name: str, *, file: str, line: int) -> None:
        super().__init__(f'`extends = "{name}"` leads back to this file', file=file, line=line, hint="extend another")
