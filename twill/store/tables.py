"""The tables of a store's SQLite file, one migration an edition. Totals of bytes are kept by triggers.

Blobs are the last columns of their rows, so that lists do not read them. `used`: seconds since the epoch.
`checked`: `examine.mark` of the content that passed, so that the checker runs once for a content.
"""

from __future__ import annotations

from collections.abc import Iterator

SIZED = ("schedules", "artifacts", "machines", "quarantine")


def triggers(table: str) -> Iterator[str]:
    """Keep `totals` the sum of `bytes` over a table."""
    add = f"UPDATE totals SET bytes = bytes + new.bytes WHERE name = '{table}'"
    take = f"UPDATE totals SET bytes = bytes - old.bytes WHERE name = '{table}'"
    yield f"INSERT INTO totals VALUES ('{table}', 0)"
    yield f"CREATE TRIGGER {table}_in AFTER INSERT ON {table} BEGIN {add}; END"
    yield f"CREATE TRIGGER {table}_out AFTER DELETE ON {table} BEGIN {take}; END"
    yield f"CREATE TRIGGER {table}_change AFTER UPDATE OF bytes ON {table} BEGIN {take}; {add}; END"


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE totals (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL)",
        """CREATE TABLE schedules (
            number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, kernel TEXT NOT NULL,
            spec TEXT NOT NULL, machine TEXT NOT NULL, machine_digest TEXT NOT NULL, created TEXT NOT NULL,
            schedule_digest TEXT NOT NULL, graph_digest TEXT NOT NULL, head_digest TEXT NOT NULL,
            strategy TEXT NOT NULL, optimal INTEGER NOT NULL, ii INTEGER NOT NULL, length INTEGER NOT NULL,
            copies INTEGER NOT NULL, registers INTEGER NOT NULL, bytes INTEGER NOT NULL, used REAL NOT NULL,
            checked TEXT NOT NULL,
            asked BLOB NOT NULL, schedule BLOB NOT NULL, graph BLOB NOT NULL)""",
        "CREATE INDEX schedules_by_kernel ON schedules (kernel, machine, number)",
        "CREATE INDEX schedules_by_machine ON schedules (machine_digest)",
        "CREATE INDEX schedules_by_use ON schedules (used)",
        """CREATE TABLE artifacts (
            key TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, bytes INTEGER NOT NULL,
            used REAL NOT NULL, data BLOB NOT NULL, PRIMARY KEY (key, name))""",
        "CREATE INDEX artifacts_by_use ON artifacts (used)",
        """CREATE TABLE machines (
            digest TEXT PRIMARY KEY, name TEXT NOT NULL, bytes INTEGER NOT NULL, document BLOB NOT NULL)""",
        """CREATE TABLE quarantine (
            number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, what TEXT NOT NULL,
            reason TEXT NOT NULL, found TEXT NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL)""",
        *(statement for table in SIZED for statement in triggers(table)),
    ),
    # What never gives way. A table of its own, as a last column would stand behind the blobs.
    ("CREATE TABLE pins (key TEXT PRIMARY KEY) WITHOUT ROWID",),
)
