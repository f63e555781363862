"""Looking after a store's file: what is in it, whether all of it is good, and making it smaller."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from twill.store.database import number
from twill.store.interface import Entry, Quarantined, summary_of
from twill.store.rows import HASH, HEAD, Row, sha256
from twill.store.sql import SUMMARY
from twill.store.sqlite import SqliteStore
from twill.store.tables import SIZED

DAY = 86_400.0


@dataclass(frozen=True)
class Size:
    """How many things a store has, and their bytes; file: bytes of the files on the disk."""

    schedules: int
    artifacts: int
    quarantined: int
    bytes: int
    file: int


@dataclass(frozen=True)
class Finding:
    """What `verify` found of one thing. reason: "" if it is good."""

    key: str
    what: str
    reason: str


def keys(
    store: SqliteStore, prefix: str = "", kernel: str | None = None, machine: str | None = None
) -> tuple[str, ...]:
    """Keys of schedules that begin with `prefix`, oldest first."""
    question = """SELECT key FROM schedules WHERE substr(key, 1, ?) = ? AND coalesce(?, kernel) = kernel
        AND coalesce(?, machine) = machine ORDER BY number"""
    with store.database.reading() as c:
        rows = c.execute(question, (len(prefix), prefix, kernel, machine)).fetchall()
    return tuple(row[0] for row in rows)


def artifact_names(store: SqliteStore, key: str) -> tuple[str, ...]:
    """Names of a key's artifacts."""
    with store.database.reading() as c:
        return tuple(row[0] for row in c.execute("SELECT name FROM artifacts WHERE key = ? ORDER BY name", (key,)))


def quarantined(store: SqliteStore) -> tuple[Quarantined, ...]:
    """What is in quarantine, newest first."""
    names = ("number", "key", "what", "reason", "found", "bytes")
    with store.database.reading() as c:
        rows = c.execute(f"SELECT {', '.join(names)} FROM quarantine ORDER BY number DESC").fetchall()
    found: list[Quarantined] = []
    for row in rows:
        with contextlib.suppress(ValidationError):  # a damaged row of what is bad anyway
            found.append(Quarantined(**dict(zip(names, row, strict=True))))
    return tuple(found)


def size(store: SqliteStore) -> Size:
    """How large it is."""
    with store.database.reading() as c:
        schedules, artifacts, bad = (number(c, f"SELECT count(*) FROM {t}") for t in SIZED if t != "machines")
        held = number(c, "SELECT sum(bytes) FROM totals")
    files = (f"{store.path}{end}" for end in ("", "-wal"))
    return Size(schedules, artifacts, bad, held, sum(os.path.getsize(file) for file in files if os.path.exists(file)))


def verify(store: SqliteStore) -> Iterator[Finding]:
    """Every schedule examined whatever mark it has, every artifact's hash, and the file's own structure.

    What is bad is put into quarantine, but for the file's structure.
    """
    with store.database.reading() as c:
        broken = [row[0] for row in c.execute("PRAGMA integrity_check(10)") if row[0] != "ok"]
    yield from (Finding("", "file", reason) for reason in broken)
    for key in keys(store):
        with store.database.reading() as c:
            row = c.execute(f"SELECT {HEAD}, graph FROM schedules WHERE key = ?", (key,)).fetchone()
        if row is not None:
            yield verified(store, Row(*row))
    with store.database.reading() as c:
        artifacts = c.execute("SELECT key, name FROM artifacts ORDER BY key, name").fetchall()
    for key, name in artifacts:
        with store.database.reading() as c:
            found = c.execute("SELECT digest, data FROM artifacts WHERE key = ? AND name = ?", (key, name)).fetchone()
        if found is None:
            continue
        good = isinstance(found[1], bytes) and sha256(found[1]) == found[0]
        if not good:
            store.quarantine_artifact(key, name, found[0])
        yield Finding(key, f"artifact {name}", "" if good else HASH)


def verified(store: SqliteStore, row: Row) -> Finding:
    """One schedule, examined; its columns for lists, too."""
    entry, reason = store.believe(row, again=True)
    if entry is not None and not listed(store, row.number, entry):
        reason = "what it is listed as is not what it is"
    if reason:
        store.quarantine(row, reason)
    return Finding(row.key, "schedule", reason)


def listed(store: SqliteStore, line: int, entry: Entry) -> bool:
    """Whether the columns that lists are made of say what the entry says."""
    with store.database.reading() as c:
        row = c.execute(f"SELECT {SUMMARY} FROM schedules WHERE number = ?", (line,)).fetchone()
    if row is None:
        return True  # it is gone meanwhile
    said = store.summary(row)
    return said is not None and said == summary_of(entry, line, said.bytes)


def collect(store: SqliteStore, limit: int | None = None, days: float | None = None) -> int:
    """Make the file smaller; the bytes of what was removed.

    limit: of bytes of schedules and artifacts, least recently used first (None: the store's). days: remove
    also what was not used for so long. The quarantine is emptied, machines that no schedule names are removed,
    and free pages are given back to the disk.
    """
    with store.database.writing() as c:
        before = number(c, "SELECT sum(bytes) FROM totals")
        store.write_touches(c)
        if days is not None:
            for table in ("schedules", "artifacts"):
                old = f"DELETE FROM {table} WHERE used < ? AND key NOT IN (SELECT key FROM pins)"
                c.execute(old, (time.time() - days * DAY,))
        store.make_room(c, limit, room=1.0)
        c.execute("DELETE FROM quarantine")
        c.execute("DELETE FROM machines WHERE digest NOT IN (SELECT machine_digest FROM schedules)")
        after = number(c, "SELECT sum(bytes) FROM totals")
    with store.database.reading() as c:
        c.executescript("PRAGMA incremental_vacuum")  # `execute` would step it only once
        c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return before - after
