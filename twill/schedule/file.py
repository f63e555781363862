"""Reads a schedule document from a file that may be truncated, edited or written by hand."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from twill.exc import MalformedSchedule
from twill.schedule.document import Schedule

SCHEMA = "twill.schedule/1"
AGAIN = "write the document again with `twill solve ... --json`; it is not meant to be edited"


def load_schedule(path_or_text: str | Path) -> Schedule:
    """The schedule in a file, or in a JSON text (a string that begins with `{` or has several lines).

    Raises `MalformedSchedule`, which names the file and the line and column, or the field.
    """
    text, file = read(path_or_text)
    data = parse(text, file)
    if not isinstance(data, dict):
        raise MalformedSchedule("a schedule document is a JSON object", file=file, line=1, hint=AGAIN)
    schema = data.get("schema")
    if schema != SCHEMA:
        says = f"is {schema!r}" if "schema" in data else "is missing"
        hint = f"this version of Twill reads {SCHEMA!r}: solve the kernel again with it"
        raise MalformedSchedule(f"schema {says}", file=file, hint=hint)
    try:
        return Schedule.parse(text)
    except ValidationError as error:
        problems = [f"{field(problem['loc'])}: {problem['msg']}" for problem in error.errors(include_url=False)]
        more = f" (and {len(problems) - 1} more fields)" if len(problems) > 1 else ""
        raise MalformedSchedule(f"{problems[0]}{more}", file=file, hint=AGAIN) from None


def read(path_or_text: str | Path) -> tuple[str, str]:
    """The text and the name of its file ("" if it was given as text)."""
    if isinstance(path_or_text, str) and (path_or_text.lstrip().startswith("{") or "\n" in path_or_text):
        return path_or_text, ""
    file = str(path_or_text)
    try:
        return Path(path_or_text).read_text(encoding="utf-8"), file
    except UnicodeDecodeError as error:
        message = f"byte {error.start} is not UTF-8 text; a schedule document is JSON"
        raise MalformedSchedule(message, file=file, hint=AGAIN) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "give the path of a file that `twill solve ... --json` or `--out` wrote"
        raise MalformedSchedule(f"cannot be read: {reason}", file=file or "(no name)", hint=hint) from None


def parse(text: str, file: str) -> object:
    """The JSON text's value. Refuses what JSON parsers let pass: repeated keys, NaN."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise MalformedSchedule(f"the key {twice!r} appears twice in one object", file=file, hint=AGAIN)
        return result

    def no_number(name: str) -> object:
        raise MalformedSchedule(f"{name} is not a JSON number", file=file, hint=AGAIN)

    try:
        value: object = json.loads(text, object_pairs_hook=once, parse_constant=no_number)
    except json.JSONDecodeError as error:
        cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        what = "the document ends in the middle" if cut else f"not JSON: {error.msg}"
        message = f"{what} (column {error.colno})"
        raise MalformedSchedule(message, file=file or "<text>", line=error.lineno, hint=AGAIN) from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise MalformedSchedule(f"not a schedule document: {reason}", file=file, hint=AGAIN) from None
    return value


def field(location: tuple[int | str, ...]) -> str:
    """A field's path as a user writes it: ops[3].start."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}"
    return path.removeprefix(".") or "document"
