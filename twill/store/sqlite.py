"""The second level: one SQLite file, shared by every process of a user."""

from __future__ import annotations

import os
from pathlib import Path

from twill.store.database import Database
from twill.store.session import SqlSession
from twill.store.sql import SqlStore
from twill.store.tables import MIGRATIONS

LIMIT = 2**30  # bytes; some thirty thousand schedules with their graphs
WAIT = 10.0  # seconds for another writer


class SqliteStore(SqlStore):
    """A `ScheduleStore` in the file `path`, which is made if needed.

    limit: bytes of schedules, graphs and artifacts; the least recently used give way. wait: seconds to wait
    for another writer. Raises StoreUnavailable.
    """

    database: Database

    def __init__(self, path: str | Path, *, limit: int = LIMIT, wait: float = WAIT) -> None:
        self.path = Path(path)
        super().__init__(Database(self.path, MIGRATIONS, wait), str(path), limit)

    def taken(self, c: SqlSession) -> int:
        """See SqlStore."""
        question = "SELECT sum(bytes) FROM totals WHERE name IN ('schedules', 'artifacts')"
        return int(c.execute(question).fetchone()[0])

    def on_disk(self, c: SqlSession) -> int:
        """See SqlStore."""
        files = (f"{self.path}{end}" for end in ("", "-wal"))
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))

    def broken(self, c: SqlSession) -> list[str]:
        """See SqlStore."""
        return [row[0] for row in c.execute("PRAGMA integrity_check(10)").fetchall() if row[0] != "ok"]

    def give_room_back(self) -> None:
        """See SqlStore."""
        with self.database.reading() as c:
            c.executescript("PRAGMA incremental_vacuum")  # `execute` would step it only once
            c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
