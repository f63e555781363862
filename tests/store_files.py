"""What tests do to the file of a store behind its back."""

from __future__ import annotations

import sqlite3

from tests.stores import entry_of
from twill.store.interface import Entry
from twill.store.rows import head_of, row_of, sha256
from twill.store.sqlite import SqliteStore


def again(store: SqliteStore) -> SqliteStore:
    """The same file, as another process opens it."""
    return SqliteStore(store.path)


def change(store: SqliteStore, statement: str, *values: object) -> None:
    """Write into the file behind the store's back."""
    connection = sqlite3.connect(store.path)
    with connection:
        connection.execute(statement, values)
    connection.close()


def plant(store: SqliteStore, entry: Entry) -> None:
    """Write an entry into the file as it is, with hashes that fit, but without a mark that it was examined."""
    row = row_of(entry) | {"checked": "", "key": entry_of().key}
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    change(store, f"INSERT OR REPLACE INTO schedules ({names}) VALUES ({marks})", *row.values())


def rehash(store: SqliteStore) -> None:
    """Make every hash of the one entry fit what is in its row, as somebody who means harm would."""
    connection = sqlite3.connect(store.path)
    row = connection.execute("SELECT key, machine_digest, created, schedule, graph, asked FROM schedules").fetchone()
    key, machine, created, schedule, graph, asked = (part if isinstance(part, bytes) else str(part) for part in row)
    texts = [part if isinstance(part, bytes) else part.encode() for part in (schedule, graph, asked)]
    digests = (sha256(texts[0]), sha256(texts[1]))
    head = head_of(texts[2], (str(key), str(machine), str(created), *digests))
    with connection:
        connection.execute(
            "UPDATE schedules SET schedule_digest = ?, graph_digest = ?, head_digest = ?", (*digests, head)
        )
    connection.close()
