"""Looking after a store: what is in it, whether all of it is good, and making it smaller."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from twill.store.interface import Entry, Quarantined, summary_of
from twill.store.rows import HEAD, StoredRow
from twill.store.session import SqlSession
from twill.store.sql import SUMMARY, SqlStore

DAY = 86_400.0


@dataclass(frozen=True)
class Size:
    """How many things a store has, and their bytes; file: bytes on the disk, of its files or its tables."""

    schedules: int
    artifacts: int
    quarantined: int
    bytes: int
    file: int


@dataclass(frozen=True)
class StoreFinding:
    """What `verify` found of one thing. reason: "" if it is good."""

    key: str
    what: str
    reason: str


def keys(store: SqlStore, prefix: str = "", kernel: str | None = None, machine: str | None = None) -> tuple[str, ...]:
    """Keys of schedules that begin with `prefix`, oldest first."""
    question = """SELECT key FROM schedules WHERE substr(key, 1, ?) = ? AND coalesce(?, kernel) = kernel
        AND coalesce(?, machine) = machine ORDER BY number"""
    with store.reading() as c:
        rows = c.execute(question, (len(prefix), prefix, kernel, machine)).fetchall()
    return tuple(row[0] for row in rows)


def artifact_names(store: SqlStore, key: str) -> tuple[str, ...]:
    """Names of a key's artifacts."""
    with store.reading() as c:
        rows = c.execute("SELECT name FROM artifacts WHERE key = ? ORDER BY name", (key,)).fetchall()
    return tuple(row[0] for row in rows)


def quarantined(store: SqlStore) -> tuple[Quarantined, ...]:
    """What is in quarantine, newest first."""
    names = ("number", "key", "what", "reason", "found", "bytes")
    with store.reading() as c:
        rows = c.execute(f"SELECT {', '.join(names)} FROM quarantine ORDER BY number DESC").fetchall()
    found: list[Quarantined] = []
    for row in rows:
        with contextlib.suppress(ValidationError):  # a damaged row of what is bad anyway
            found.append(Quarantined(**dict(zip(names, row, strict=True))))
    return tuple(found)


def size(store: SqlStore) -> Size:
    """How large it is."""
    with store.reading() as c:
        schedules, artifacts, bad = (
            number(c, f"SELECT count(*) FROM {table}") for table in ("schedules", "artifacts", "quarantine")
        )
        return Size(schedules, artifacts, bad, held(store, c), store.on_disk(c))


def held(store: SqlStore, c: SqlSession) -> int:
    """Bytes of everything that a store holds."""
    tables = ("schedules", "artifacts", "quarantine", store.machines_table)
    return sum(number(c, f"SELECT coalesce(sum(bytes), 0) FROM {table}") for table in tables)


def number(c: SqlSession, question: str) -> int:
    """The one number that answers a question."""
    return int(c.execute(question).fetchone()[0])


def verify(store: SqlStore) -> Iterator[StoreFinding]:
    """Every schedule examined whatever mark it has, every artifact's hash, and the file's own structure.

    What is bad is put into quarantine, but for the file's structure.
    """
    with store.reading() as c:
        broken = store.broken(c)
    yield from (StoreFinding("", "file", reason) for reason in broken)
    for key in keys(store):
        with store.reading() as c:
            row = c.execute(f"SELECT {HEAD}, graph FROM schedules WHERE key = ?", (key,)).fetchone()
        if row is not None:
            yield verified(store, StoredRow(*row))
    with store.reading() as c:
        artifacts = c.execute("SELECT key, name FROM artifacts ORDER BY key, name").fetchall()
    for key, name in artifacts:
        fault = store.artifact_fault(key, name)
        if fault is not None:
            yield StoreFinding(key, f"artifact {name}", fault)


def verified(store: SqlStore, row: StoredRow) -> StoreFinding:
    """One schedule, examined; its columns for lists, too."""
    entry, reason = store.believe(row, again=True)
    if entry is not None and not listed(store, row.number, entry):
        reason = "what it is listed as is not what it is"
    if reason:
        store.quarantine(row, reason)
    return StoreFinding(row.key, "schedule", reason)


def listed(store: SqlStore, line: int, entry: Entry) -> bool:
    """Whether the columns that lists are made of say what the entry says."""
    with store.reading() as c:
        row = c.execute(f"SELECT {SUMMARY} FROM schedules WHERE number = ?", (line,)).fetchone()
    if row is None:
        return True  # it is gone meanwhile
    said = store.summary(row)
    return said is not None and said == summary_of(entry, line, said.bytes)


def collect(store: SqlStore, limit: int | None = None, days: float | None = None) -> int:
    """Make the file smaller; the bytes of what was removed.

    limit: of bytes of schedules and artifacts, least recently used first (None: the store's). days: remove
    also what was not used for so long. The quarantine is emptied, machines that no schedule names are removed,
    and free pages are given back to the disk.
    """
    with store.writing() as c:
        before = held(store, c)
        store.looked_up.write(c)
        if days is not None:
            for table in ("schedules", "artifacts"):
                old = f"DELETE FROM {table} WHERE used < ? AND key NOT IN (SELECT key FROM pins)"
                c.execute(old, (time.time() - days * DAY,))
        store.make_room(c, limit, room=1.0)
        c.execute("DELETE FROM quarantine")
        c.execute(f"DELETE FROM {store.machines_table} WHERE digest NOT IN (SELECT machine_digest FROM schedules)")
        after = held(store, c)
    store.give_room_back()
    return before - after
