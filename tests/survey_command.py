"""What surveys of seeded faults have in common: their words on the command line, which faults they take, and records
that are gone on with.

    python -m tests.SURVEY lower PROGRAMS [NAME ...]
    python -m tests.SURVEY run PROGRAMS RECORD [--jobs N] [--seconds S] [--every N] [--kind CLASS] [--before RECORD]
    python -m tests.SURVEY table RECORD ...
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar


class Kinded(Protocol):
    """A fault of a class."""

    @property
    def kind(self) -> str:
        """The class."""


L = TypeVar("L", bound=Any)  # a dataclass, of which a record has a line each


def commands(doc: str | None, *more: str) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of a survey, and those of its commands, to which each adds what it has alone. more: other commands."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made = parser.add_subparsers(dest="command", required=True)
    found = {name: made.add_parser(name) for name in ("lower", "run", "table", *more)}
    found["lower"].add_argument("programs", type=Path)
    found["lower"].add_argument("names", nargs="*")
    run = found["run"]
    run.add_argument("programs", type=Path)
    run.add_argument("record", type=Path)
    run.add_argument("--jobs", type=int, default=os.cpu_count())
    run.add_argument("--seconds", type=float, default=1e9, help="when it is to end, done or not")
    run.add_argument("--every", type=int, default=1, help="each Nth fault of every class alone, its first among them")
    run.add_argument("--kind", action="append", default=[], help="faults of these classes alone")
    run.add_argument("--before", type=Path, action="append", default=[], help="records of what is known")
    found["table"].add_argument("record", type=Path, nargs="+")
    return parser, found


def taken(made: Sequence[Kinded], every: int, kinds: Sequence[str]) -> list[int]:
    """The numbers of the faults that are asked about."""
    seen: Counter[str] = Counter()
    found = []
    for number, fault in enumerate(made):
        if kinds and fault.kind not in kinds:
            continue
        if seen[fault.kind] % every == 0:
            found.append(number)
        seen[fault.kind] += 1
    return found


def read(paths: Iterable[Path], line: type[L]) -> list[L]:
    """The lines of records; one that was not written to its end is left out."""
    texts = [text for path in paths if path.is_file() for text in path.read_text(encoding="utf-8").splitlines()]
    return [line(**json.loads(text)) for text in texts if text.endswith("}")]


def append(path: Path, lines: Iterable[Any]) -> None:
    """Writes each line as soon as it is known."""
    with path.open("a", encoding="utf-8") as record:
        for line in lines:
            record.write(json.dumps(asdict(line)) + "\n")
            record.flush()
