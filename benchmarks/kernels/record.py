"""The recorded document of a table: rows of timed contestants, where and when; read, merged and written whole."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "twill.benchmark/1"


@dataclass(frozen=True)
class Spread:
    """Times of one launch in milliseconds: median of the medians of rounds, 5th and 95th percentile of all launches.
    clock: MHz of the SMs, power: watts, both means over the timed windows; None: no sensor."""

    ms: float
    low: float
    high: float
    launches: int
    rounds: tuple[float, ...] = ()
    clock: float | None = None
    power: float | None = None


@dataclass(frozen=True)
class Timed:
    """A contestant of one row. group: twill, triton, library, or partial: what makes a part of the result and is no
    peer. errors: relative, by output. note: why not timed."""

    name: str
    group: str
    detail: str = ""
    errors: Mapping[str, float] = field(default_factory=dict)
    ok: bool = True
    sustained: Spread | None = None
    burst: Spread | None = None
    host_us: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Entry:
    """A row of the document. work: of one launch, in 1e9 operations (TFLOP/s = work / ms) or bytes (TB/s). emitted: the
    emitted kernels that competed, with the first digits of their manifests' digests. absent: peers and why."""

    key: str
    kernel: str
    part: str
    sizes: Mapping[str, int]
    unit: str
    work: float
    emitted: Mapping[str, str]
    timed: tuple[Timed, ...]
    absent: Mapping[str, str] = field(default_factory=dict)
    at: str = ""

    def best(self, group: str, how: str = "sustained") -> Timed | None:
        """The fastest right contestant of a group (`peers`: triton and library)."""
        members = [t for t in self.timed if t.group in (("triton", "library") if group == "peers" else (group,))]
        right = [t for t in members if t.ok and getattr(t, how) is not None]
        return min(right, key=lambda t: float(getattr(t, how).ms), default=None)

    def ratio(self, to: str, how: str = "sustained") -> float | None:
        """Speed of the best emitted kernel over that of the best of a group."""
        ours, theirs = self.best("twill", how), self.best(to, how)
        if ours is None or theirs is None:
            return None
        return float(getattr(theirs, how).ms / getattr(ours, how).ms)

    def rate(self, timed: Timed, how: str = "sustained") -> float | None:
        """In the row's unit."""
        spread: Spread | None = getattr(timed, how)
        return None if spread is None else self.work / spread.ms


@dataclass(frozen=True)
class Document:
    """A table as recorded. environment: device, versions, date."""

    table: str
    environment: Mapping[str, str]
    entries: tuple[Entry, ...] = ()

    def with_entry(self, entry: Entry, order: Sequence[str]) -> Document:
        """The entry added, or put in place of the one of its key; entries as `order` has their keys."""
        known = {e.key: e for e in self.entries} | {entry.key: entry}
        entries = tuple(known[key] for key in order if key in known)
        return Document(self.table, self.environment, entries)


def read(path: Path) -> Document | None:
    """The document, or None if there is none. Errors: ValueError for another schema."""
    if not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    if found.get("schema") != SCHEMA:
        raise ValueError(f"{path} is no document of {SCHEMA}: give another --out")
    return Document(found["table"], found["environment"], tuple(entry_of(entry) for entry in found["rows"]))


def write(path: Path, document: Document) -> None:
    """The whole document, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {
        "schema": SCHEMA,
        "table": document.table,
        "environment": dict(document.environment),
        "rows": [asdict(entry) for entry in document.entries],
    }
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, path)


def entry_of(plain: Mapping[str, Any]) -> Entry:
    """From JSON."""
    return Entry(**{**plain, "timed": tuple(_timed(one) for one in plain["timed"])})


def _timed(plain: Mapping[str, Any]) -> Timed:
    spreads = {how: _spread(plain[how]) for how in ("sustained", "burst")}
    return Timed(**{**plain, **spreads})


def _spread(plain: Mapping[str, Any] | None) -> Spread | None:
    return None if plain is None else Spread(**{**plain, "rounds": tuple(plain["rounds"])})


def spread(rounds: Sequence[Sequence[float]], clock: float | None = None, power: float | None = None) -> Spread:
    """Of the launches of several rounds."""
    every = sorted(time for one in rounds for time in one)
    medians = tuple(statistics.median(one) for one in rounds)
    return Spread(
        statistics.median(medians), percentile(every, 5), percentile(every, 95), len(every), medians, clock, power
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of sorted values, between neighbours by proportion."""
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of nothing."""
    found = list(values)
    return statistics.geometric_mean(found) if found else None
